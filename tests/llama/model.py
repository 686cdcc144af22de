"""Makes a tiny model with random weights, the same bytes every time: for tests with a real llama.cpp, good for nothing else.

    python3 -m pip install -r tests/llama/requirements.txt
    python3 tests/llama/model.py tiny.gguf

A llama of 4 layers whose vocabulary is the 256 bytes and a few words, so that any text has tokens. Weights come from
numpy's PCG64 with a fixed seed; what it answers is nonsense, and always the same nonsense.
"""

import sys

import gguf
import numpy

EMBEDDING, LAYERS, HEADS, FORWARD, CONTEXT = 256, 4, 8, 704, 512
WORDS = "the of and to in is was that for it with as his on be at by had not are".split()


def vocabulary():
    """Tokens, scores and kinds, as SentencePiece has them."""
    tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{byte:02X}>".encode() for byte in range(256)]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256
    scores = [0.0] * len(tokens)
    space = "\u2581"
    letters = [space] + [chr(code) for code in range(ord("a"), ord("z") + 1)]
    # A word is found by joining letters, so every beginning of one is a token, too.
    pieces = {space + word[:end] for word in WORDS for end in range(1, len(word) + 1)}
    for rank, piece in enumerate(letters + sorted(pieces, key=lambda piece: (len(piece), piece))):
        tokens.append(piece.encode())
        kinds.append(gguf.TokenType.NORMAL)
        scores.append(float(len(piece)) - rank * 0.001)
    return tokens, scores, kinds


def main():
    tokens, scores, kinds = vocabulary()
    random = numpy.random.Generator(numpy.random.PCG64(20_260_809))

    def weights(*shape):
        return (random.standard_normal(shape, dtype=numpy.float32) * (2.0 / shape[-1]) ** 0.5).astype(numpy.float16)

    out = gguf.GGUFWriter(sys.argv[1], "llama")
    out.add_name("tiny random")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(EMBEDDING)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(FORWARD)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_rope_dimension_count(EMBEDDING // HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(len(tokens))
    out.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    out.add_tokenizer_model("llama")
    out.add_token_list(tokens)
    out.add_token_scores(scores)
    out.add_token_types(kinds)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_unk_token_id(0)
    out.add_tensor("token_embd.weight", weights(len(tokens), EMBEDDING))
    out.add_tensor("output_norm.weight", numpy.ones(EMBEDDING, dtype=numpy.float32))
    out.add_tensor("output.weight", weights(len(tokens), EMBEDDING))
    for layer in range(LAYERS):
        name = f"blk.{layer}."
        for norm in ["attn_norm", "ffn_norm"]:
            out.add_tensor(f"{name}{norm}.weight", numpy.ones(EMBEDDING, dtype=numpy.float32))
        for part in ["attn_q", "attn_k", "attn_v", "attn_output"]:
            out.add_tensor(f"{name}{part}.weight", weights(EMBEDDING, EMBEDDING))
        out.add_tensor(f"{name}ffn_gate.weight", weights(FORWARD, EMBEDDING))
        out.add_tensor(f"{name}ffn_up.weight", weights(FORWARD, EMBEDDING))
        out.add_tensor(f"{name}ffn_down.weight", weights(EMBEDDING, FORWARD))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
