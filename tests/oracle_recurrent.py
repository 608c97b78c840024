"""The recurrent models once more, straight from their papers: one sentence, one word, one vector at a time.

Nothing here is batched, padded or fused, and every letter is the paper's. Biases are torch's: the papers mostly leave
them out. In every GRU, torch's reset gate r acts on a product, r * (U h), where the papers have U (r * h); in the
decoder of Cho et al. the paper's r acts on U' h' + C c, torch's on U' h' alone. The update gate z of torch and of
Cho et al. keeps the old state where Bahdanau et al. have 1 - z: the same function, with z's weights negated.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn, tanh

from seq2seq.models import Seq2Seq
from seq2seq.models.rnn import Variant
from seq2seq.models.rnn_attention import ReadoutState, Score, Window

# ---- Small parts ----


def cat(*vectors: Tensor) -> Tensor:
    return torch.cat(vectors)


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def softmax(scores: list[Tensor]) -> list[Tensor]:
    total = sum(torch.exp(score) for score in scores)
    return [torch.exp(score) / total for score in scores]


def weighted_sum(weights: list[Tensor], vectors: list[Tensor]) -> Tensor:
    return sum(weight * vector for weight, vector in zip(weights, vectors, strict=True))


def gates(rnn: Any, suffix: str, number: int) -> list[list[Tensor]]:
    """A recurrent layer's matrices on the input and on the state, and their biases, gate by gate."""
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [list(getattr(rnn, kind + suffix).chunk(number)) for kind in kinds]


def gru_step(rnn: nn.GRU | nn.GRUCell, x: Tensor, h: Tensor, suffix: str = "") -> Tensor:
    """Cho et al. 2014, appendix A.1.1, with torch's place for the reset gate."""
    (w_r, w_z, w_h), (u_r, u_z, u_h), (b_r, b_z, b_h), (d_r, d_z, d_h) = gates(rnn, suffix, 3)
    r = sigmoid(w_r @ x + b_r + u_r @ h + d_r)
    z = sigmoid(w_z @ x + b_z + u_z @ h + d_z)
    proposal = tanh(w_h @ x + b_h + r * (u_h @ h + d_h))
    return z * h + (1 - z) * proposal


def lstm_step(rnn: nn.LSTM, x: Tensor, h: Tensor, c: Tensor, suffix: str = "") -> tuple[Tensor, Tensor]:
    """The LSTM with a forget gate and without peepholes."""
    (w_i, w_f, w_g, w_o), (u_i, u_f, u_g, u_o), (b_i, b_f, b_g, b_o), (d_i, d_f, d_g, d_o) = gates(rnn, suffix, 4)
    i = sigmoid(w_i @ x + b_i + u_i @ h + d_i)
    f = sigmoid(w_f @ x + b_f + u_f @ h + d_f)
    g = tanh(w_g @ x + b_g + u_g @ h + d_g)
    o = sigmoid(w_o @ x + b_o + u_o @ h + d_o)
    c = f * c + i * g
    return o * tanh(c), c


States = tuple[Tensor, ...]  # of one layer: a GRU's h, or an LSTM's h and c


def step(rnn: nn.GRU | nn.LSTM, x: Tensor, state: States, suffix: str) -> States:
    """One step of one layer in one direction."""
    if isinstance(rnn, nn.LSTM):
        return lstm_step(rnn, x, *state, suffix)
    return (gru_step(rnn, x, *state, suffix),)


def stack(rnn: nn.GRU | nn.LSTM, x: Tensor, states: list[States]) -> list[States]:
    """One step of all layers: each reads the layer below."""
    after = []
    for layer, state in enumerate(states):
        after.append(step(rnn, x, state, f"_l{layer}"))
        x = after[-1][0]
    return after


def read(encoder: Any, src: list[int]) -> tuple[list[States], list[Tensor]]:
    """Return each layer's last states and the top layer's h at each word, both directions side by side."""
    rnn = encoder.rnn
    parts = 2 if isinstance(rnn, nn.LSTM) else 1
    words, last = [encoder.embedding.weight[word] for word in src], []
    for layer in range(rnn.num_layers):
        sides, ends = [], []
        for suffix, order in (("", 1), ("_reverse", -1))[: 1 + rnn.bidirectional]:
            state: States = (torch.zeros(rnn.hidden_size).double(),) * parts
            side = []
            for x in words[::order]:
                state = step(rnn, x, state, f"_l{layer}{suffix}")
                side.append(state[0])
            sides.append(side[::order])
            ends.append(state)
        words = [cat(*h) for h in zip(*sides, strict=True)]
        last.append(tuple(cat(*part) for part in zip(*ends, strict=True)))
    return last, words


def maxout(readout: Any, s: Tensor, y: Tensor, c: Tensor) -> Tensor:
    """t~ = U s + V E y + C c; t_l = max(t~_{2l-1}, t~_{2l}); logits = W t. Bahdanau et al. 2015, A.2.2."""
    u, v, w_c = readout.hidden.weight.split([len(s), len(y), len(c)], dim=1)
    t = u @ s + v @ y + w_c @ c + readout.hidden.bias
    pairs = [max(t[2 * unit], t[2 * unit + 1]) for unit in range(len(t) // 2)]
    return readout.output.weight @ torch.stack(pairs) + readout.output.bias


# ---- Recurrent models, one sentence at a time ----

Model = Seq2Seq[Any, Any]
Result = tuple[list[Tensor], list[list[Tensor]]]  # logits and attention over the source, one entry a target word


def cho(config: Any, model: Model, src: list[int], tgt: list[int]) -> Result:
    """Cho et al. 2014, appendix A: c enters s_0, every update and every readout."""
    decoder = model.decoder
    last, _ = read(model.encoder, src)
    c = tanh(decoder.context.weight @ cat(*(h for (h,) in last)) + decoder.context.bias)
    s: list[States] = [(h,) for h in tanh(decoder.start.weight @ c + decoder.start.bias).chunk(config.num_layers)]
    logits = []
    for word in tgt:
        y = decoder.embedding.weight[word]
        s = stack(decoder.rnn, cat(y, c), s)
        logits.append(maxout(decoder.readout, s[-1][0], y, c))
    return logits, []


def reversed_words(words: list[Any]) -> list[Any]:
    """Return the words backwards, and EOS where it was."""
    return [*words[:-1][::-1], words[-1]]


def sutskever(config: Any, model: Model, src: list[int], tgt: list[int]) -> Result:
    """Sutskever et al. 2014: the source is read backwards, and only its last states are handed on."""
    decoder = model.decoder
    states, _ = read(model.encoder, reversed_words(src))
    logits = []
    for word in tgt:
        states = stack(decoder.rnn, decoder.embedding.weight[word], states)
        logits.append(decoder.output.weight @ states[-1][0] + decoder.output.bias)
    return logits, []


def rnn(config: Any, model: Model, src: list[int], tgt: list[int]) -> Result:
    return (cho if config.variant is Variant.cho else sutskever)(config, model, src, tgt)


def bahdanau_encoder(config: Any, encoder: Any, src: list[int]) -> tuple[list[Tensor], Tensor]:
    """Bahdanau et al. 2015, A.2.1: h_j = [forward; backward], and the backward state at the first word."""
    sides = []
    for suffix, words in (("_l0", src), ("_l0_reverse", src[::-1])):
        states = [torch.zeros(config.encoder_size).double()]
        for word in words:
            states.append(gru_step(encoder.rnn, encoder.embedding.weight[word], states[-1], suffix))
        sides.append(states[1:])
    forward, backward = sides[0], sides[1][::-1]
    return [cat(forward[j], backward[j]) for j in range(len(src))], backward[0]


def bahdanau_decoder(config: Any, decoder: Any, h: list[Tensor], first: Tensor, tgt: list[int]) -> Result:
    """Bahdanau et al. 2015, A.2.2: attend with s_{i-1}, then update to s_i."""
    v_a, w_a, u_a = decoder.score.energy.weight[0], decoder.score.query.weight, decoder.score.key.weight
    s = [tanh(decoder.start.weight @ first + decoder.start.bias)]  # s_0
    logits, alignment = [], []
    for i, word in enumerate(tgt, start=1):
        y = decoder.embedding.weight[word]
        alpha = softmax([v_a @ tanh(w_a @ s[i - 1] + u_a @ h_j) for h_j in h])
        c = weighted_sum(alpha, h)
        s.append(gru_step(decoder.cell, cat(y, c), s[i - 1]))
        read = s[i - 1] if config.readout_state is ReadoutState.previous else s[i]  # A.2.2, or eq. 4
        logits.append(maxout(decoder.readout, read, y, c))
        alignment.append(alpha)
    return logits, alignment


def bahdanau(config: Any, model: Model, src: list[int], tgt: list[int]) -> Result:
    return bahdanau_decoder(config, model.decoder, *bahdanau_encoder(config, model.encoder, src), tgt)


def luong_score(config: Any, score: Any, h: Tensor, h_bar: Tensor, s: int) -> Tensor:
    """Luong et al. 2015, eq. 7 and 8."""
    if config.score is Score.dot:
        return h @ h_bar
    if config.score is Score.general:
        return h @ score.key.weight @ h_bar
    if config.score is Score.concat:
        w_a = torch.cat([score.query.weight, score.key.weight], dim=1)
        return score.energy.weight[0] @ tanh(w_a @ cat(h, h_bar))
    return score.positions.weight[s] @ h


def luong_weights(config: Any, decoder: Any, t: int, h: Tensor, h_bar: list[Tensor]) -> list[Tensor]:
    """Luong et al. 2015, sections 3.1 and 3.2, source positions and steps counted from 0."""
    length, d = len(h_bar), config.half_width
    scores = [luong_score(config, decoder.score, h, h_bar[s], s) for s in range(length)]
    if config.window is Window["global"]:
        return softmax(scores)
    if config.window is Window["local_m"]:
        p = min(t, length - 1)
    else:
        v_p, w_p = decoder.centers.position.weight[0], decoder.centers.hidden.weight
        p = float(length * sigmoid(v_p @ tanh(w_p @ h)))  # eq. 9
    window = [s for s in range(length) if p - d <= s <= p + d]
    weights = [torch.zeros(()).double()] * length
    for s, weight in zip(window, softmax([scores[s] for s in window]), strict=True):
        sharpness = math.exp(-((s - p) ** 2) / (2 * (d / 2) ** 2))  # eq. 10
        weights[s] = weight * sharpness if config.window is Window["local_p"] else weight
    return weights


def luong(config: Any, model: Model, src: list[int], tgt: list[int]) -> Result:
    """Luong et al. 2015, section 3: update to h_t, then attend with it; h~_t enters the next update."""
    decoder = model.decoder
    states, h_bar = read(model.encoder, reversed_words(src) if config.reverse_source else src)
    if config.reverse_source:
        h_bar = reversed_words(h_bar)
    h_tilde = torch.zeros(config.hidden_size).double()
    logits, alignment = [], []
    for t, word in enumerate(tgt):
        x = decoder.embedding.weight[word]
        states = stack(decoder.rnn, cat(x, h_tilde) if config.input_feeding else x, states)
        h = states[-1][0]
        a = luong_weights(config, decoder, t, h, h_bar)
        h_tilde = tanh(decoder.attentional.weight @ cat(weighted_sum(a, h_bar), h))  # eq. 5
        logits.append(decoder.output.weight @ h_tilde + decoder.output.bias)  # eq. 6
        alignment.append(a)
    return logits, alignment
