"""The learner: GPT, context mixer, configuration, presets."""
