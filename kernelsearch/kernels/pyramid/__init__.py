"""The language pyramid: text smoothed over words and positions at a series of scales, and matching with it."""
