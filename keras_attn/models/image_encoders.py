"""Image encoders made from existing networks."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras

from keras_attn.corpora.download import DownloadError
from keras_attn.models.image_encoder import ImageEncoder, as_regions, begin_encoder

_LAST = None  # the output of the network without its top

# Name: function of `keras.applications`, scaling, layer with the map, size of the pictures.
APPLICATIONS = {
    "vgg16": ("VGG16", "caffe", "block5_conv3", 224),
    "vgg19": ("VGG19", "caffe", "block5_conv4", 224),
    "resnet50": ("ResNet50", "caffe", _LAST, 224),
    "resnet101": ("ResNet101", "caffe", _LAST, 224),
    "resnet152": ("ResNet152", "caffe", _LAST, 224),
    "resnet50v2": ("ResNet50V2", "tf", _LAST, 224),
    "mobilenet": ("MobileNet", "tf", _LAST, 224),
    "mobilenetv2": ("MobileNetV2", "tf", _LAST, 224),
    "mobilenetv3small": ("MobileNetV3Small", "none", _LAST, 224),
    "mobilenetv3large": ("MobileNetV3Large", "none", _LAST, 224),
    "densenet121": ("DenseNet121", "torch", _LAST, 224),
    "inceptionv3": ("InceptionV3", "tf", _LAST, 299),
    "xception": ("Xception", "tf", _LAST, 299),
    "efficientnetb0": ("EfficientNetB0", "none", _LAST, 224),
    "efficientnetb1": ("EfficientNetB1", "none", _LAST, 240),
    "efficientnetb2": ("EfficientNetB2", "none", _LAST, 260),
    "efficientnetb3": ("EfficientNetB3", "none", _LAST, 300),
    "efficientnetb4": ("EfficientNetB4", "none", _LAST, 380),
    "efficientnetv2b0": ("EfficientNetV2B0", "none", _LAST, 224),
    "efficientnetv2s": ("EfficientNetV2S", "none", _LAST, 384),
    "convnexttiny": ("ConvNeXtTiny", "none", _LAST, 224),
}


def applications_encoder(
    name: str = "vgg16",
    weights: str | os.PathLike[str] | None = "imagenet",
    image_size: int | Sequence[int] | None = None,
    layer: str | None = None,
) -> ImageEncoder:
    """Creates an image encoder from a network of `keras.applications`, up to a feature map.

        regions = network up to that map(scale(resize(images)))         (B, R, D)

    | name | regions of an image of 224 x 224 |
    |---|---|
    | `"vgg16"` (Simonyan & Zisserman, 2015), used by Xu et al. (2015) | 14x14x512 |
    | `"resnet50"` (He et al., 2016) | 7x7x2048 |
    | `"mobilenetv2"` (Sandler et al., 2018), `"efficientnetb0"` (Tan & Le, 2019) | 7x7x1280 |

    Images are scaled as in the training of each network. The dtype follows Keras' global policy,
    because the functions of `keras.applications` have no argument for it.

    Args:
        name: One of the names above, or: vgg19, resnet101, resnet152, resnet50v2, mobilenet,
            mobilenetv3small, mobilenetv3large, densenet121, inceptionv3, xception,
            efficientnetb1 ... b4, efficientnetv2b0, efficientnetv2s, convnexttiny.
        weights: `"imagenet"`, which Keras downloads once; None for random weights; or the path of a
            file with weights of the network without its classifier (`include_top=False`).
        image_size: Rows and columns, or one number; the usual size of the network if None.
        layer: Name of the layer whose output is the feature map; the last feature map if None.

    Returns:
        An `ImageEncoder`.

    Raises:
        ValueError: If `name` or `layer` is unknown, the output of `layer` is not a feature map,
            `weights` is a path without a file, the network does not support the image size, or
            Keras is not set to channels last.
        DownloadError: If the weights cannot be downloaded.

    Example:

    >>> encoder = applications_encoder("vgg16", weights=None, image_size=32)
    >>> encoder.grid, encoder.region_dim, encoder.preprocess.scaling
    ((2, 2), 512, 'caffe')
    """
    if name not in APPLICATIONS:
        raise ValueError(
            f"`name` of applications_encoder must be one of {', '.join(APPLICATIONS)}. "
            f"Received: {name!r}. For any other Keras model, use encoder_from_model."
        )
    if weights is not None and weights != "imagenet" and not Path(weights).is_file():
        raise ValueError(
            "`weights` of applications_encoder must be 'imagenet', None or a file. Received: "
            f"{str(weights)!r}, which is not a file."
        )
    function, scaling, own_layer, usual_size = APPLICATIONS[name]
    size = usual_size if image_size is None else image_size
    images, x = begin_encoder(size, scaling, "applications_encoder")
    network = _application(
        function,
        weights=weights if weights in (None, "imagenet") else str(weights),
        include_top=False,
        input_shape=tuple(x.shape[1:]),
    )
    network = _cut(network, layer or own_layer, "applications_encoder")
    return ImageEncoder(images, as_regions(network(x)), name=f"{name}_encoder")


def _application(function: str, **arguments) -> keras.Model:
    try:
        return getattr(keras.applications, function)(**arguments)
    except Exception as error:
        if "URL fetch failure" not in str(error):  # Keras raises a bare Exception
            raise
        raise DownloadError(
            f"The weights of {function} could not be downloaded: {error}. Other choices: "
            "weights=<path of the file>, weights=None, or small_cnn_encoder and "
            "patch_encoder, which are trained from random weights."
        ) from error


def encoder_from_model(
    model: keras.Model,
    layer: str | None = None,
    preprocess: str | Callable[[Any], Any] | None = None,
    image_size: int | Sequence[int] | None = None,
    name: str = "image_encoder",
) -> ImageEncoder:
    """Creates an image encoder that shares the layers of your own Keras model.

        regions = model up to `layer`(preprocess(resize(images)))     (B, R, D)

    Args:
        model: A functional or `Sequential` model with one input of images `(B, H, W, 3)`.
        layer: Name of the layer whose output is the feature map `(B, rows, columns, D)`; the
            output of the model if None.
        preprocess: Preprocessing that the model expects: a scaling of `ImagePreprocessing`
            (`"none"`, `"tf"`, `"torch"` or `"caffe"`), or a layer or model that receives the
            resized images with values from 0 to 255. None passes values from 0 to 255.
        image_size: Rows and columns, or one number; the fixed size of the model if None.
        name: Name of the encoder.

    Returns:
        An `ImageEncoder`.

    Raises:
        ValueError: If the model is not built or has several inputs, has no layer of this name, or
            has no fixed size and `image_size` is None; if the output of the layer is not a feature
            map; if `preprocess` is an unknown name; or if Keras is not set to channels last.

    Example:

    >>> layers = [keras.Input((16, 16, 3)), keras.layers.Conv2D(8, 3, strides=2, name="map")]
    >>> model = keras.Sequential([*layers, keras.layers.GlobalMaxPooling2D()])
    >>> encoder_from_model(model, layer="map", preprocess="tf").grid
    (7, 7)
    """
    owner = "encoder_from_model"
    if len(getattr(model, "inputs", None) or ()) != 1:
        raise ValueError(
            f"`model` of {owner} must be a functional or built Sequential model with one input. "
            f"Received: {model!r}."
        )
    known = tuple(model.inputs[0].shape[1:3])
    size = known if image_size is None else image_size
    if image_size is None and (len(known) != 2 or None in known):
        raise ValueError(
            f"`image_size` of {owner} is required for a model without a fixed image size. "
            f"Received: a model with inputs of shape {tuple(model.inputs[0].shape)}."
        )
    scaling = preprocess if isinstance(preprocess, str) else "none"
    images, x = begin_encoder(size, scaling, owner)
    if preprocess is not None and not isinstance(preprocess, str):
        x = preprocess(x)
    return ImageEncoder(images, as_regions(_cut(model, layer, owner)(x)), name=name)


def _cut(model: keras.Model, layer: str | None, owner: str) -> keras.Model:
    """The model up to a feature map."""
    outputs = model.outputs
    if layer is not None:
        if layer not in [own.name for own in model.layers]:
            raise ValueError(
                f"`layer` of {owner} must be one of {_map_names(model)}. Received: {layer!r}."
            )
        outputs = _outputs(model, model.get_layer(layer))
    if len(outputs) != 1 or len(outputs[0].shape) != 4:
        where = f"layer {layer!r}" if layer is not None else "the model's output"
        raise ValueError(
            f"Expected one feature map (B, rows, columns, D) from `layer` of {owner}, one of "
            f"{_map_names(model)}. Received: {where} of shape "
            f"{', '.join(str(tuple(output.shape)) for output in outputs)}."
        )
    return keras.Model(model.inputs[0], outputs[0], name="network")


def _outputs(model: keras.Model, layer: keras.layers.Layer) -> list[Any]:
    """Returns the output of a layer in this model.

    `layer.output` belongs to the first call of a layer, and in a nested model to the nested graph.
    """
    graph = getattr(model, "_functional", None) or model  # a Sequential has one
    nodes = [node for nodes in graph._nodes_by_depth.values() for node in nodes]
    return [x for node in nodes if node.operation is layer for x in node.output_tensors]


def _map_names(model: keras.Model) -> str:
    """The last layers whose output is a feature map."""
    names = []
    for layer in model.layers:
        outputs = _outputs(model, layer)
        is_map = len(outputs) == 1 and len(outputs[0].shape) == 4
        if is_map and not isinstance(layer, keras.layers.InputLayer):
            names.append(layer.name)
    return ", ".join(["..."] * (len(names) > 20) + names[-20:])
