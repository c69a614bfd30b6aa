"""The terminal screens. They know the session protocol and the frozen snapshot, and no engine.

`kvtop.ui.app.app.run_app(session)` shows the dashboard. Importing this package loads nothing heavy.
"""
