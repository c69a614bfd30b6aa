"""Where requests come from: scenarios, arrivals, prompts, traces."""
