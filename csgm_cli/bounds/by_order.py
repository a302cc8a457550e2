"""Closed-form bounds in the log-moment at one Renyi order, minimised over real orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from csgm_cli.model.certificate import Certificate, Direction, Proof
from csgm_cli.renyi.conversion import Conversion, best_log_delta, renyi_log_delta
from csgm_cli.renyi.law import Law
from csgm_cli.renyi.orders import RenyiCurve

#: (law, epsilon, starting point of the search, see `Certificate.hint`) -> a bound; None if not computable.
Method: TypeAlias = Callable[[Law, float, float | None], Certificate | None]


@dataclass(frozen=True)
class ByOrder:
    """A bound that is a closed form in the log-moment at one order, minimised over the order.

    ``direction`` None: the bound holds in both. ``order``: a fixed order, by default the best one. The
    search for the best order is less accurate the further log delta is from the ``goal``. ``unsampled``: the
    bound for the law without client sampling, which is larger in convex order. ``few_orders``: see
    `RenyiCurve`.
    """

    proof: Proof
    direction: Direction | None
    convert: Conversion
    replace_one: bool = False
    integer_orders: bool = False
    order: float | None = None
    goal: float | None = None
    unsampled: bool = False
    few_orders: bool = False

    def curve(self, law: Law) -> RenyiCurve:
        """The log-moments to convert, as a function of the order."""
        if self.proof is Proof.RENYI_REMOVE:
            return RenyiCurve(Law((), law.remove_variance))
        law = law.without_sampling if self.unsampled else law
        return RenyiCurve(law, self.replace_one, self.integer_orders, self.few_orders)

    def best_order(self, law: Law, epsilon: float, near: float | None = None) -> float:
        """The order with the smallest bound."""
        return best_log_delta(self.curve(law), self.convert, epsilon, near, self.goal)[1]

    def __call__(self, law: Law, epsilon: float, near: float | None = None) -> Certificate:
        """The certificate at (law, epsilon)."""
        curve = self.curve(law)
        if self.order is not None:
            order, log_delta = self.order, self.convert(self.order, curve.moment(self.order), epsilon)
        else:
            log_delta, order = best_log_delta(curve, self.convert, epsilon, near, self.goal)
        if self.proof is Proof.GAUSSIAN_MATCHED and log_delta == renyi_log_delta(
            order, curve.moment(order), epsilon
        ):  # `matched_add` and `matched_remove` return the smaller of the two
            return Certificate(Proof.RENYI, None, epsilon, log_delta, order=order)
        return Certificate(self.proof, self.direction, epsilon, log_delta, order=order)


RENYI = ByOrder(Proof.RENYI, None, renyi_log_delta)
RENYI_REMOVE = ByOrder(Proof.RENYI_REMOVE, Direction.REMOVE, renyi_log_delta)
