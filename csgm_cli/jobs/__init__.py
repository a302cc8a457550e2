"""What the commands answer: calibrate, account, compare, plan, sweep, budgets, selftest."""
