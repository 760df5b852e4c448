"""Tinker server of a run: started and stopped by it, or an existing one."""
