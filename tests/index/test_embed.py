"""The torch-free embedder: a text's vector is its own, whatever is embedded beside it or was before."""

import numpy as np

TEXTS = ("INR 2.4.", "Apixaban 5 mg twice daily was started in place of warfarin because of a labile INR.", "INR 2.4.")


def test_a_vector_does_not_depend_on_what_else_is_embedded(light_embedder):
    together = light_embedder.encode(TEXTS)
    assert together.shape == (3, light_embedder.dimension)
    assert together.dtype == np.float32
    alone = np.concatenate([light_embedder.encode([text]) for text in TEXTS[::-1]])[::-1]
    assert np.array_equal(together, alone)
    assert np.allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-6)
    assert together[0] @ together[1] < 0.9
    assert light_embedder.encode([]).shape == (0, light_embedder.dimension)
