//! Journals: one SQLite file for each actor.
