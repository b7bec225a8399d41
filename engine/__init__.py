"""Engine: llama.cpp behind one class, and the registry of models."""
