# SPDX-License-Identifier: Apache-2.0
"""Draws runs for tests of equal results: rows of options that together contain every combination of a few choices."""

import itertools
import random

from program import Program
from turns import chosen

MOST_DRAWS = 100_000


class Space:
    """factors: the values of each option. allowed(row): whether a run can have these values together. in_effect(row): the
    options that have an effect in it. can_meet(choice): whether some row has these (option, value) pairs together, with
    all of them in effect."""

    def __init__(self, factors, allowed, in_effect, can_meet):
        self.factors, self.allowed, self.in_effect, self.can_meet = factors, allowed, in_effect, can_meet

    def choices(self, row, strength):
        """All combinations of values of `strength` options that occur in this row."""
        return {
            tuple((name, row[name]) for name in names)
            for names in itertools.combinations(self.in_effect(row), strength)
        }

    def drawn(self, generator, **given):
        """An allowed row that has these values. Some of them may have no effect in it."""
        for _ in range(MOST_DRAWS):
            row = {name: generator.choice(values) for name, values in self.factors.items()} | given
            if self.allowed(row):
                return row
        raise ValueError(f"no row with {given} is allowed, or very few are")

    def covering(self, strength, seed=1, tries=60):
        """Rows that together contain all combinations of values of any `strength` options. They are drawn by a generator
        with a seed, so they are the same on every machine."""
        generator = random.Random(seed)
        left = {
            choice
            for names in itertools.combinations(self.factors, strength)
            for values in itertools.product(*(self.factors[name] for name in names))
            if self.can_meet(choice := tuple(zip(names, values, strict=True)))
        }
        rows = []
        while left:
            wanted = dict(min(left, key=repr))
            candidates = []
            for _ in range(MOST_DRAWS):
                row = self.drawn(generator, **wanted)
                if set(wanted) <= set(self.in_effect(row)):
                    candidates.append(row)
                if len(candidates) == tries:
                    break
            if not candidates:
                raise ValueError(f"{wanted}: can_meet() is wrong, or such rows are very rare")
            rows.append(max(candidates, key=lambda row: len(self.choices(row, strength) & left)))
            left -= self.choices(rows[-1], strength)
        return rows

    def sample(self, count, seed=2):
        """`count` more rows, drawn evenly from all."""
        generator = random.Random(seed)
        return [self.drawn(generator) for _ in range(count)]


class Rows(Program):
    """Compares runs. deck_of_rows: their sections. decides: options that give another trajectory with another value;
    changes_nothing: those that must not. trajectory_of(row): runs it, with the deck in deck.cfg. subject: as for
    turns.chosen()."""

    deck_of_rows, decides, changes_nothing = {}, {}, {}
    subject = None

    def walk(self, rows):
        """Compares every row with a run that has the first value of all options that must not matter. Rows take turns, if the
        class names a subject."""
        rows = chosen(rows, self.subject, lambda row: " ".join(map(str, row.values())))
        self.deck(self.deck_of_rows)
        plain = {name: values[0] for name, values in self.changes_nothing.items()}
        references = {}
        for row in rows:
            with self.subTest(**row):
                decided = tuple(row[name] for name in self.decides)
                if decided not in references:
                    references[decided] = self.trajectory_of({**row, **plain})
                self.assertEqual(self.trajectory_of(row), references[decided])
        self.assertEqual(len(set(map(str, references.values()))), len(references), "each is a trajectory of its own")
