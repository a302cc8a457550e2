"""Run a calibrated mechanism: what clients send, and what the server releases (docs/run.md).

A `Plan` holds a mechanism and its noise, a rotation and a wire format. Clients rotate, clip and mask their
vectors (``client``) and send only the values; the server adds payloads in the rotated domain, adds noise
once and rotates back (``server``). ``ledger`` records released rounds.
"""
