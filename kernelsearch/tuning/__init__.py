"""Tuning: the space of settings, the trials, the journal of results, the choice by cross-validation."""
