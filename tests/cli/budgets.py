"""The budgets of several test modules, as text."""

OLD = """\
[defaults]
delta = 1e-6

[population.phones]
epsilon = 8

[population.phones.release.next-word]
noise-multiplier = 0.9
gamma = 0.05
norm-ratio = 100
rounds = 400

[population.phones.release.usage]
mechanism = "gaussian"
noise_multiplier = 40
rounds = 365

[population.phones.release.dropped]
mechanism = "gaussian"
sigma = 30.0
"""
#: One release changed, one renamed, one added and one removed; a second population within its limit.
NEW = """\
[defaults]
delta = 1e-6

[population.phones]
epsilon = 8

[population.phones.release.next-word]
noise-multiplier = 0.7
gamma = 0.05
norm-ratio = 100
rounds = 400
owner = "100 %, really: yes"
reason = "two\\nlines | and a bar"

[population.phones.release.usage-totals]
mechanism = "gaussian"
noise-multiplier = 40
rounds = 365

[population.phones.release.emoji]
compression = 10
norm-ratio = 30
noise-multiplier = 1.5
rounds = 20
adjacency = "add-remove"

[population.phones.release.planned]
compression = 10
norm-ratio = 30
noise-multiplier = 1.5
enabled = false

[population."watches, <old> & 100 %"]
epsilon = 2
delta = 1e-8

[population."watches, <old> & 100 %".release.heart-rate]
mechanism = "gaussian"
noise-multiplier = 12.5
rounds = 10
"""
LIMIT = "[population.p]\nepsilon = 1\ndelta = 1e-6\n"
GAUSSIAN = '[population.p.release.r]\nmechanism = "gaussian"\n'
MISTAKEN = """\
[population.people]
epsilon = 8
delta = {delta}

[population.people.release.right]
gamma = 0.01
norm-ratio = 1000
noise-multiplier = 0.0122
rounds = 1

[population.people.release.wrong]
gamma = 0.01
norm-ratio = 1000
noise-multiplier = 1.22
enabled = {enabled}
{participation}

[population.people.release.plain]
mechanism = "gaussian"
noise-multiplier = 40
{participation}
"""
