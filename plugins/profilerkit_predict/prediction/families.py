"""The family of an operator without products, by which a calibration finds its time."""

from __future__ import annotations

from profilerkit.trace.records import OpRecord

from .operator_names import compile_words, join_words

#: The families of traffic by the words of their names; all others are element-wise. A name may have words of several
#: families: the first of these counts.
_FAMILIES = {
    # Without an exponential: the gradients of sigmoid and tanh use their outputs.
    "element-wise": compile_words(r"clamp|h(ard)?_(swish|sigmoid|tanh)|(sigmoid|tanh)_(backward|grad)"),
    "average pooling": compile_words(r"(avg|average|mean)_?pool(ing)?"),
    "upsampling": compile_words(r"upsample|interpolate|resize"),
    "pooling": compile_words(r"(max|un)?pool(ing)?"),
    "softmax": compile_words(r"(log_?)?soft_?max|(cum)?log_?(cum)?sum_?exp"),
    # Torch's operators of training, by their whole names: they compute the mean and variance of the batch.
    "batch statistics": compile_words(r"^(native_batch_norm(_legit)?|batch_norm_with_update)(_functional)?$"),
    "batch normalization": compile_words(r"(batch|instance)_?norm(alization)?"),
    "random": compile_words(
        r"dropout|rand(n|int|om|perm)?|normal|uniform(?!_(de|re)?quant)|bernoulli|multinomial|binomial|poisson(?!_nll)"
        r"|geometric|(?<!matrix_)exponential|cauchy"
    ),
    "normalization": compile_words(r"[a-z]*norm(alization|alize|alizer)?"),
    "gather": compile_words(r"embedding|index|gather|take|scatter|(select|slice)_backward"),
    "reduction": compile_words(
        r"(a|arg|cum|nan|nanarg|p)?(sum|mean|max|min|prod|median)|aminmax|hard_?max|(arg|m)?sort|top_?k|var|std|any"
        r"|all(?!_to)|reduce(?!_precision)|bias_add_grad"
    ),
    "activation": compile_words(
        r"[cgs]?elu|silu|swish|mish|softplus|sigmoid|logistic|logits?|exp(m|it|onential)?|x?log(1p|y|1py|it)?|logaddexp"
        r"|(a|arc)?(sin|cos|tan)h?|sinc|erf(c|cx|inv)?|r?sqrt|pow(er)?|(addc|true|floor)?div(ide)?|xdivy"
    ),
    "movement": compile_words(
        r"clone|contiguous|copy|cat|concat(enate)?|[a-z]*stack|pad(ded)?|reshape|repeat|roll|flip(lr|ud)?|fill|zeros|ones"
        r"|full|arange|transpose|expand|slice|split"
    ),
}
_GRADIENT = compile_words(r"backward|(?<!no_)grad|gradient")
#: The families whose gradients have tables of their own, as "pooling gradient".
_WITH_GRADIENTS = frozenset(
    ("average pooling", "upsampling", "pooling", "softmax", "batch normalization", "normalization", "activation")
)
#: Averages of so many elements are reductions: the averages of whole images.
_MANY = 32


def find_family(operator: OpRecord) -> str:
    """Return the family of an operator without products: "softmax", "pooling gradient", "element-wise", ..."""
    name = join_words(operator.operator)
    family = next((family for family, pattern in _FAMILIES.items() if pattern.search(name)), "element-wise")
    if family == "average pooling" and operator.bytes_read >= _MANY * operator.bytes_written:
        return "reduction"
    return f"{family} gradient" if family in _WITH_GRADIENTS and _GRADIENT.search(name) else family
