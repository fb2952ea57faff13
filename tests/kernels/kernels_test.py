"""Tests of the list of kernels and of the table in docs/install.md."""

import json
import re
import unittest

import matrix
import run


class TableTest(unittest.TestCase):
    def test_the_page_contains_the_stored_results(self):
        page = matrix.PAGE.read_text()
        self.assertEqual(page, matrix.rendered(page, json.loads(matrix.RESULTS.read_text())),
                         "run tests/kernels/matrix.py")

    def test_every_kernel_is_readable(self):
        kernels = run.read_kernels(run.HERE / "kernels.txt")
        self.assertTrue(any(default for *_, default in kernels))
        for _, _, pattern, nft, _ in kernels:
            re.compile(pattern)
            self.assertIn(nft, ("-", *run.NFT_SUITES))


if __name__ == "__main__":
    unittest.main()
