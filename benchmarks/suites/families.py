"""Contenders that several suites have."""

from benchmarks.suite import OURS, Family

KERAS_ATTN = Family(OURS, "benchmarks.peers.ours")
KERAS_HUB = Family("keras_hub", "benchmarks.peers.hub", requires=("keras_hub",))
_TENSORFLOW = ("TensorFlow", "TensorFlow XLA")
ADAM = Family(OURS, "benchmarks.peers.adam", settings={"ours": True}, only=_TENSORFLOW)
KERAS_ADAM = Family("Keras", "benchmarks.peers.adam", settings={"ours": False}, only=_TENSORFLOW)
BERT = Family(OURS, "benchmarks.peers.bert")
HUB_BERT = Family("keras_hub", "benchmarks.peers.hub_bert", requires=("keras_hub",))
TORCH_BERT = Family(
    "Hugging Face BERT",
    "benchmarks.peers.torch_bert",
    keras=False,
    requires=("torch", "transformers"),
)
ONNX_BERT = Family(
    "ONNX Runtime",
    "benchmarks.peers.onnx_bert",
    keras=False,
    requires=("onnx", "onnxscript", "onnxruntime", "torch"),
)
OPENVINO_BERT = Family(
    "OpenVINO",
    "benchmarks.peers.onnx_bert",
    keras=False,
    settings={"runtime": "openvino"},
    requires=("onnx", "onnxscript", "openvino", "torch"),
)
GPT = Family(OURS, "benchmarks.peers.gpt")
HUB_GPT = Family("keras_hub", "benchmarks.peers.hub_gpt", requires=("keras_hub",))
HF_GPT = Family(
    "Hugging Face GPT-2",
    "benchmarks.peers.hf_gpt",
    keras=False,
    requires=("torch", "transformers"),
)
TORCH_GPT = Family("PyTorch", "benchmarks.peers.torch_gpt", keras=False, requires=("torch",))
STOCK = Family("stock Keras layers", "benchmarks.peers.stock")
PRODUCTS = Family("only matrix products", "benchmarks.peers.products")
MARIAN = Family(
    "Hugging Face MarianMT",
    "benchmarks.peers.marian",
    keras=False,
    requires=("torch", "transformers"),
)
CTRANSLATE = Family(
    "CTranslate2", "benchmarks.peers.ctranslate", keras=False, requires=("ctranslate2",)
)
PYTORCH = Family("PyTorch", "benchmarks.peers.torch_nn", keras=False, requires=("torch",))
TORCH = PYTORCH.having(compiled=False)
TORCH_COMPILED = PYTORCH.having("PyTorch, torch.compile", compiled=True)
TF_DATA = Family(
    "tf.data.bucket_by_sequence_length",
    "benchmarks.peers.tf_data",
    keras=False,
    requires=("tensorflow",),
)
