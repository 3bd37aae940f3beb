"""The levels of the compiled kernels: which one is loaded, that all train the same, and which ones a wheel may have."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from manyheads import _cpu, _native

ROOT = next(parent for parent in Path(__file__).parents if (parent / "pyproject.toml").is_file())

# A short training run and a short fit in both precisions, as JSON: {name: [numbers]}.
SCRIPT = """
import json, math
import numpy as np
from manyheads import _native, gaussian, permutation_graph
from manyheads._native import Fitting32, Fitting64, Settings, Training, multiply

def train(precision, softmax, values, context, key_heads=3):
    graph, rng = permutation_graph(40, seed=0), np.random.default_rng(1)
    settings = Settings()
    settings.items, settings.d_model, settings.heads, settings.key_width, settings.context = 40, 13, 3, 5, context
    settings.key_heads = key_heads
    settings.softmax, settings.values, settings.message_width = softmax, values, 5 if values else 0
    settings.balanced, settings.positive_weight, settings.target_rate, settings.sharpness = False, 15.0, 0.5, 10.0
    settings.learning_rate, settings.weight_decay, settings.beta1, settings.beta2 = 1e-3, 0.01, 0.9, 0.999
    settings.epsilon, settings.context_key = 1e-8, 77
    settings.steps = settings.validate_every = settings.patience = 1
    settings.validation_contexts = settings.test_contexts = 1
    messages = rng.standard_normal((40, 5)) if values else None
    run = Training(settings, precision, graph.row_starts, graph.targets, gaussian(40, 13, seed=2), messages)
    query, key = rng.standard_normal((2, 3, 13, 5)) / 4
    run.set_weights(query, key[:key_heads], 0.1)
    losses = run.advance(100)
    query, key, threshold = run.weights()
    return [np.nansum(losses), np.linalg.norm(query), np.linalg.norm(key), threshold, *run.evaluate(2, 50)]

def fit(kind):
    graph, rng = permutation_graph(100, seed=3), np.random.default_rng(4)
    fitting = kind(graph.row_starts, graph.targets, gaussian(100, 17, seed=5), 3, 5, 2)
    fitting.set_weights(*rng.standard_normal((2, 3, 17, 5)) / 2, 1.3)
    found = fitting.burst([0.01] * 20, 0.9, 0.95, 3.0, 0.0, 1.0, math.inf, False).finding
    return [found.loss, found.high, fitting.weights()[2]]

def product():
    left, right = np.random.default_rng(6).standard_normal((2, 37, 37))
    out = np.empty((37, 37))
    multiply(left, right, out)
    return [out.sum(), np.abs(out).max()]

results = {"isa": _native.isa, "product float64": product()}
results |= {"fit float32": fit(Fitting32), "fit float64": fit(Fitting64)}
for name, rules in {"max": (False, False, 16), "max, 11 items": (False, False, 11), "softmax": (True, False, 16),
                    "softmax, 9 items": (True, False, 9), "values": (False, True, 16),
                    "max, shared keys": (False, False, 16, 1), "softmax, shared keys": (True, False, 9, 1)}.items():
    for precision in ("float32", "float64"):
        results[f"{name} {precision}"] = train(precision, *rules)
print(json.dumps(results))
"""
# The results of SCRIPT, made by the level v4.
WANTED: dict[str, list[float]] = {
    "product float64": [-111.59531131960215, 21.799342535746465],
    "fit float32": [1502.5674643510492, -0.3606150150299072, 1.4522423200839996],
    "fit float64": [1502.5674168060875, -0.36061490117888484, 1.4522423104083224],
    "max float32": [
        93.88539600338405,
        3.1175658760895044,
        3.0115729900648054,
        0.1649736911058426,
        115,
        1272,
        298,
        0.0,
        0.0,
        0,
    ],
    "max float64": [
        93.88540288990585,
        3.1175696783760025,
        3.0115768126758726,
        0.1649739220265412,
        115,
        1272,
        298,
        0.0,
        0.0,
        0,
    ],
    "max, 11 items float32": [
        106.64972156863672,
        3.139915924808118,
        3.0519502486739727,
        0.1443539559841156,
        81,
        985,
        144,
        0.0,
        0.0,
        0,
    ],
    "max, 11 items float64": [
        106.64973191567907,
        3.1399201652826716,
        3.051954221770437,
        0.14435418055950644,
        81,
        985,
        144,
        0.0,
        0.0,
        0,
    ],
    "softmax float32": [
        114.56509467126865,
        3.2623170413237887,
        3.1896139730071584,
        0.18727917969226837,
        323,
        6410,
        90,
        0.0,
        0.0,
        0,
    ],
    "softmax float64": [
        114.56508021879235,
        3.262321493680546,
        3.1896180417177464,
        0.18727927766901664,
        323,
        6410,
        90,
        0.0,
        0.0,
        0,
    ],
    "softmax, 9 items float32": [
        201.11071849574856,
        3.227537957840362,
        3.161386145204058,
        0.1959238350391388,
        170,
        3880,
        0,
        0.0,
        0.0,
        0,
    ],
    "softmax, 9 items float64": [
        201.1106754476529,
        3.2275422394562074,
        3.161390477348427,
        0.19592405401048987,
        170,
        3880,
        0,
        0.0,
        0.0,
        0,
    ],
    "values float32": [
        396.47683028097543,
        3.0731635212332784,
        3.380297506568033,
        0.10000000149011612,
        0,
        0,
        0,
        1421.374359279871,
        1772.1199875329823,
        413,
    ],
    "values float64": [
        396.4769678236081,
        3.073167363089944,
        3.3803074632953796,
        0.1,
        0,
        0,
        0,
        1421.3747499037459,
        1772.119998631683,
        413,
    ],
    "max, shared keys float32": [
        92.57619818765865,
        3.0624788875420093,
        1.6512337109959445,
        0.15622654557228088,
        103,
        1133,
        310,
        0.0,
        0.0,
        0,
    ],
    "max, shared keys float64": [
        92.57620512769275,
        3.0624832154552437,
        1.6512356731961497,
        0.15622673256251113,
        103,
        1133,
        310,
        0.0,
        0.0,
        0,
    ],
    "softmax, shared keys float32": [
        200.76198475033206,
        3.2680711640324156,
        1.8062875302739183,
        0.19593459367752075,
        170,
        3880,
        0,
        0.0,
        0.0,
        0,
    ],
    "softmax, shared keys float64": [
        200.76192510085144,
        3.2680754582590588,
        1.8062897373418048,
        0.195934778442142,
        170,
        3880,
        0,
        0.0,
        0.0,
        0,
    ],
}


def python(code: str, isa: str | None) -> subprocess.CompletedProcess[str]:
    """Python in a new process, with the package of this process and the given MANYHEADS_ISA."""
    environment = {name: value for name, value in os.environ.items() if name != "MANYHEADS_ISA"}
    if isa is not None:
        environment["MANYHEADS_ISA"] = isa
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("isa", _cpu.supported)
def test_every_level_that_this_cpu_can_run_computes_the_same(isa: str) -> None:
    ended = python(SCRIPT, isa)
    assert ended.returncode == 0, ended.stderr
    results = json.loads(ended.stdout)
    assert results.pop("isa") == isa
    assert results.keys() == WANTED.keys()
    for name, numbers in results.items():
        tolerance = 1e-5 if "float32" in name else 1e-10
        assert numbers == pytest.approx(WANTED[name], rel=tolerance, abs=0), name


def test_the_newest_level_is_loaded() -> None:
    ended = python("from manyheads import _native; print(_native.isa)", None)
    assert ended.stdout.strip() == _cpu.supported[-1], ended.stderr
    assert _native.isa in _cpu.built


@pytest.mark.parametrize("isa", ["v1", "avx2", "V3", "native " if "native" in _cpu.built else "native"])
def test_a_level_that_is_not_there_is_refused_in_one_sentence(isa: str) -> None:
    ended = python("import manyheads._native", isa)
    assert ended.returncode == 1
    use = ", ".join(_cpu.supported)
    says = f"ImportError: MANYHEADS_ISA is {isa!r}, but this build does not have it: use one of {use}."
    assert ended.stderr.splitlines()[-1] == says


def test_a_level_that_the_cpu_cannot_run_is_refused_in_one_sentence() -> None:
    pretend = "from manyheads import _cpu; _cpu.built, _cpu.supported = ('v2', 'v4'), {}; import manyheads._native"
    ended = python(pretend.format("('v2',)"), "v4")
    says = "ImportError: MANYHEADS_ISA is 'v4', but this CPU cannot run it: use one of v2."
    assert ended.stderr.splitlines()[-1] == says
    ended = python(pretend.format("()"), None)
    says = "ImportError: This build of manyheads is for newer CPUs (v2, v4): build it from source."
    assert ended.stderr.splitlines()[-1] == says


@pytest.mark.parametrize(
    ("settings", "environment", "says"),
    [
        (["-DMANYHEADS_PORTABLE=OFF"], {}, "A wheel of manyheads is built with MANYHEADS_PORTABLE=ON"),
        (["-DMANYHEADS_PORTABLE=ON"], {"CXXFLAGS": "-march=native"}, "CXXFLAGS names a CPU"),
    ],
)
def test_no_wheel_is_built_for_one_machine(
    settings: list[str], environment: dict[str, str], says: str, tmp_path: Path
) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("there is no cmake on the path to configure a build with")
    command = [cmake, "-S", str(ROOT / "native"), "-B", str(tmp_path), "-DSKBUILD_STATE=wheel", *settings]
    ended = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert ended.returncode != 0
    assert says in " ".join(ended.stderr.split())
