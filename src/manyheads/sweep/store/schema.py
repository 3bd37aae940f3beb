"""The schema of a store, one step a version, so that a store of any older version can be brought up to date."""

from __future__ import annotations

APPLICATION_ID = 0x6D686472  # "mhdr" in the file's header: this SQLite file is a manyheads store

# SQLite itself computes the columns that plain SQL filters by from the JSON of run and scores: the two agree always.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE results (
        id           TEXT NOT NULL,     -- 16 hexadecimal digits of the SHA-256 of `run`
        kind         TEXT NOT NULL,     -- layer, block, retrieval, or a kind of trial
        engine       TEXT NOT NULL,     -- native, reference, folded-DEVICE or python
        status       TEXT NOT NULL,     -- converged, limit, diverged, timeout, cancelled, failed, quarantined
        run          TEXT NOT NULL,     -- JSON: every field of the run, defaults resolved
        scores       TEXT NOT NULL,     -- JSON: the scores by name; null where one could not be measured
        items        INTEGER GENERATED ALWAYS AS (json_extract(run, '$.items')) STORED,
        d_model      INTEGER GENERATED ALWAYS AS (json_extract(run, '$.d_model')) STORED,
        heads        INTEGER GENERATED ALWAYS AS (json_extract(run, '$.heads')) STORED,
        key_width    INTEGER GENERATED ALWAYS AS (json_extract(run, '$.key_width')) STORED,
        key_budget   INTEGER GENERATED ALWAYS AS (heads * key_width) STORED,
        seed         INTEGER GENERATED ALWAYS AS (json_extract(run, '$.seed')) STORED,
        graph        TEXT GENERATED ALWAYS AS (json_extract(run, '$.graph')) STORED,
        degree       INTEGER GENERATED ALWAYS AS (json_extract(run, '$.degree')) STORED,
        embedding    TEXT GENERATED ALWAYS AS (json_extract(run, '$.embedding')) STORED,
        rule         TEXT GENERATED ALWAYS AS (json_extract(run, '$.rule')) STORED,
        objective    TEXT GENERATED ALWAYS AS (json_extract(run, '$.objective')) STORED,
        micro_f1     REAL GENERATED ALWAYS AS (json_extract(scores, '$.micro_f1')) STORED,         -- on the test set
        mse          REAL GENERATED ALWAYS AS (json_extract(scores, '$.mse')) STORED,              -- value channel
        exact_errors INTEGER GENERATED ALWAYS AS (json_extract(scores, '$.exact_errors')) STORED,  -- among all items²
        margin       REAL GENERATED ALWAYS AS (json_extract(scores, '$.margin')) STORED,           -- the certificate's
        steps        INTEGER,           -- optimiser steps made
        seconds      REAL,              -- wall time of the run
        error        TEXT,              -- the reason, if the run failed
        attempts     INTEGER NOT NULL,  -- how often the run was started
        version      TEXT NOT NULL,     -- of manyheads
        machine      TEXT NOT NULL,     -- JSON: processor, cores, system, compiler, versions
        recorded     TEXT NOT NULL,     -- UTC, ISO 8601
        curve        TEXT NOT NULL,     -- JSON: the validation checks, [step, score, loss] each
        PRIMARY KEY (id, engine)
    ) STRICT;
    """,
    # everything that results are filtered and ordered by, so that neither reads the rows themselves
    """
    CREATE INDEX results_by_problem ON results (
        items, d_model, graph, degree, rule, heads, key_width, seed, engine, status, kind, key_budget
    );
    """,
)

VERSION = len(MIGRATIONS)
