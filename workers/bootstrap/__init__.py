"""The composition root: the only place where drivers are made and plugged into the ports.

One module for each kind of process, so that none imports what another one needs.
"""
