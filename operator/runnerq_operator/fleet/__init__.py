"""Workers as the control loop sees them: one port, one adapter per place where workers can run."""
