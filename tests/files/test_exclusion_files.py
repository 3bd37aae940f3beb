"""Proofs of exclusions in files: they come back to the last bit, and what is no proof of this problem is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyheads import InputError, Problem, exclude, gaussian, permutation_graph
from manyheads.certificate.exclusion_proof import Exclusion
from manyheads.files import ExclusionFile, read_exclusion, write_exclusion
from manyheads.files.safetensors_files import pack_tensors

PROBLEM = Problem(permutation_graph(32, seed=0), gaussian(32, 8, seed=1))


@pytest.fixture(scope="module")
def excluded() -> Exclusion:
    return exclude(PROBLEM)


def test_a_proof_comes_back_to_the_last_bit_and_is_checked_again(tmp_path: Path, excluded: Exclusion) -> None:
    path = tmp_path / "proof.safetensors"
    write_exclusion(path, excluded, PROBLEM, provenance={"graph": "permutation:32", "time_limit": "9"})
    file = read_exclusion(path)
    assert excluded.matrix is not None
    assert np.array_equal(file.matrix, excluded.matrix)
    assert file.provenance == {"graph": "permutation:32", "time_limit": "9", "steps": excluded.steps}
    assert file.check(PROBLEM).proved


def test_a_proof_for_another_problem_is_refused(tmp_path: Path, excluded: Exclusion) -> None:
    write_exclusion(tmp_path / "proof.safetensors", excluded, PROBLEM)
    file = read_exclusion(tmp_path / "proof.safetensors")
    other_graph = Problem(permutation_graph(32, seed=7), PROBLEM.embedding)
    other_rows = Problem(PROBLEM.graph, 2 * PROBLEM.rows)  # the matrix itself proves this one too
    for problem, name in ((other_graph, "graph"), (other_rows, "embedding")):
        check = file.check(problem)
        assert not check.proved
        assert check.reason == f"the proof was made for another {name}"
    forged = ExclusionFile(file.matrix, other_graph.graph.fingerprint, file.embedding, {})
    assert "wrong sign" in forged.check(other_graph).reason  # fingerprints prove nothing


@pytest.mark.parametrize("disturbed", ["larger", "flipped", "absent"])
def test_a_disturbed_proof_with_a_right_checksum_is_refused(
    disturbed: str, tmp_path: Path, excluded: Exclusion
) -> None:
    assert excluded.matrix is not None
    matrix = excluded.matrix.copy()
    matrix[3, 5] *= {"larger": 1.5, "flipped": -1.0, "absent": 0.0}[disturbed]
    wrong = Exclusion("excluded", "", 32, 32, 8, 0, 0.0, matrix)
    write_exclusion(tmp_path / "proof.safetensors", wrong, PROBLEM)
    assert not read_exclusion(tmp_path / "proof.safetensors").check(PROBLEM).proved


def test_what_has_no_proof_is_not_written(tmp_path: Path, excluded: Exclusion) -> None:
    held = Problem(PROBLEM.graph, gaussian(32, 16, seed=1))
    with pytest.raises(InputError, match="held, and there is no proof"):
        write_exclusion(tmp_path / "proof.safetensors", exclude(held), held)
    with pytest.raises(InputError, match=r"must end in \.safetensors"):
        write_exclusion(tmp_path / "proof.npy", excluded, PROBLEM)
    assert not list(tmp_path.iterdir())


METADATA = {"format": "manyheads exclusion", "version": "1", "graph": "", "embedding": "", "provenance": "{}"}
SQUARE = np.ones((3, 3))


@pytest.mark.parametrize(
    ("arrays", "metadata", "says"),
    [
        ({"matrix": SQUARE}, {"format": "manyheads layer"}, "is not the proof of an exclusion"),
        ({"matrix": SQUARE}, {"version": "2"}, "proof format '2' but this manyheads reads 1"),
        ({"other": SQUARE}, {}, "no tensor 'matrix'"),
        ({"matrix": SQUARE.astype(np.float32)}, {}, "no square matrix of float64"),
        ({"matrix": SQUARE[:2]}, {}, "no square matrix of float64"),
        ({"matrix": SQUARE[0]}, {}, "no square matrix of float64"),
        ({"matrix": SQUARE}, {"provenance": "[]"}, "provenance of its proof that cannot be read"),
        ({"matrix": SQUARE}, {"provenance": "{"}, "is not JSON"),
    ],
)
def test_what_is_no_file_of_a_proof_is_refused(
    arrays: dict[str, np.ndarray], metadata: dict[str, str], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "proof.safetensors"
    path.write_bytes(pack_tensors(arrays, METADATA | metadata))
    with pytest.raises(InputError, match=says):
        read_exclusion(path)
