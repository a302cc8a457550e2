"""The computations behind the commands: calibrate, account, compare, plan, sweep, budgets, selftest."""
