"""Values into money: the same six clients under three rules, to the cent.

Values may be below zero and are never certain; a rule says what becomes of that. Each payout states its rule in words, and for
every amount the range in which it could move within the uncertainty of the values.
"""

import fedvalue as fv

NAMES = ("Aachen", "Bern", "Como", "Delft", "small", "careless")
RULES = ("floor", "threshold", "shift")
POT = 100_000


def main() -> list[fv.Payout]:
    values = fv.Values(
        [0.21, 0.17, 0.12, 0.08, 0.01, -0.05],
        NAMES,
        "surrogate",
        32,
        stderr=[0.010, 0.012, 0.009, 0.011, 0.012, 0.015],
    )
    payouts = [fv.payout(values, POT, rule, currency="EUR") for rule in RULES]
    print(f"{'EUR':10}", *(f"{rule:>12}" for rule in RULES))
    for lines in zip(*(payout.lines for payout in payouts), strict=True):
        print(f"{lines[0].name:10}", *(f"{line.amount:12,}" for line in lines))
    print(payouts[0])
    return payouts


if __name__ == "__main__":
    main()
