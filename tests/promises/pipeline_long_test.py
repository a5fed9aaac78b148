# SPDX-License-Identifier: Apache-2.0
"""The long version of the matrix of pipelines: every combination of three choices, and a random sample of all rows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "app"))
from pipeline_matrix import LONG_SPACE, SPACE, WITH_STAGE_3_CHANGES_NOTHING, PipelineMatrix
from program import main


class Pipelines(PipelineMatrix):
    def test_every_three_choices(self):
        self.walk(SPACE.covering(3))


class WithOptionsOfStage3(PipelineMatrix):
    changes_nothing = WITH_STAGE_3_CHANGES_NOTHING

    def test_every_pair_of_choices(self):
        self.walk(LONG_SPACE.covering(2))

    def test_a_sample_of_all(self):
        self.walk(LONG_SPACE.sample(200))


class OnThreeRanksPerStage(PipelineMatrix):
    """The order of sums depends on three ranks, and on how often gradients are reduced, but not on pipelines."""

    def test_every_schedule_and_stage(self):
        self.deck(self.deck_of_rows)
        plain = {name: values[0] for name, values in {**self.decides, **self.changes_nothing}.items()}
        plain |= {"micro_batches": 12, "data_ranks": 3}
        for stage in (0, 1, 2, 3):
            expected = self.trajectory_of({**plain, "zero.stage": stage})
            for size, schedule, parts in ((2, "1f1b", 1), (2, "gpipe", 2), (2, "interleaved", 2), (4, "1f1b", 1)):
                for overlap in ("true", "false"):
                    row = {"pipeline.size": size, "pipeline.schedule": schedule, "pipeline.parts": parts}
                    row |= {"zero.stage": stage, "comm.overlap": overlap}
                    with self.subTest(**row):
                        self.assertEqual(self.trajectory_of({**plain, **row}), expected)


if __name__ == "__main__":
    main()
