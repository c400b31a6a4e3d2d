//! Synthetic workloads from named distributions with a seed.
