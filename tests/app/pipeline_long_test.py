# SPDX-License-Identifier: Apache-2.0
"""The long version of the matrix of pipelines: every combination of three choices, and a random sample of all rows."""

from pipeline_matrix import SPACE, PipelineMatrix
from program import main


class Pipelines(PipelineMatrix):
    def test_every_three_choices(self):
        self.walk(SPACE.covering(3))

    def test_a_sample_of_all(self):
        self.walk(SPACE.sample(200))


if __name__ == "__main__":
    main()
