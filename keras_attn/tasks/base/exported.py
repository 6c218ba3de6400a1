"""Predictions and SavedModels of tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_attn.arrays import ArrayModule
from keras_attn.export import (
    check_batch_first,
    check_place,
    export_in_child_process,
    export_text_functions,
    in_parts,
    replaced_folder,
    with_a_row,
)
from keras_attn.fields import EncoderInput, Signature, Together
from keras_attn.fields.signature import WithModules
from keras_attn.generation import CompiledFunction, Keeper
from keras_attn.interop.fast_tokenizers import write_tokenizer
from keras_attn.interop.runtimes import check_format, export_model, output_names
from keras_attn.layers.quantization import quantized_sublayers
from keras_attn.progress import tell
from keras_attn.settings import Settings
from keras_attn.tasks.base.saved import Saved
from keras_attn.tasks.base.served_numbers import (
    WITH_SETTINGS,
    checked_numbers,
    expected_with_settings,
    number_columns,
)

_BATCH_SIZE = 64  # rows that a SavedModel computes at a time, where no setting says it


class Exported(Saved, Keeper):
    """Base class of `Task`: computes outputs from declared inputs, and exports SavedModels."""

    Use: ClassVar[type[Settings]] = Settings
    signature_inputs: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Names of the inputs of a signature, keyed by signature; all inputs by default."""

    whole_inputs: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Names of inputs without a row for each output row, keyed by signature."""
    parts_rows: ClassVar[bool] = True
    """Whether the SavedModel processes `batch_size` rows at a time; False if `serve` does this."""
    limits: ClassVar[tuple[str, ...]] = ()
    """Names of settings of class `Use` that limit requests to an export, for `limits.json`."""
    _own_use: Mapping[str, Any] = {}

    # Settings of use

    @property
    def own_use(self) -> Mapping[str, Any]:
        """Settings of class `Use` with which this object overrides the defaults of the class.

        An imported model has its own search settings, such as beams, length penalty, and forced or
        suppressed tokens. `predict`, `evaluate`, `explain`, `export` and the command use the
        settings in `own_use` unless a caller gives others. `save` stores them with the task. Assign
        a dict of some settings:

            translator.own_use = {"beams": 6, "length_penalty_kind": "power", "alpha": 1.0}

        An unknown setting raises a TypeError, and a value out of range a ValueError.
        """
        return dict(self._own_use)

    @own_use.setter
    def own_use(self, values: Mapping[str, Any]) -> None:
        made = self.Use.made(values)
        self._own_use = {name: getattr(made, name) for name in values}

    def used(self, given: Mapping[str, Any]) -> Any:
        """Returns the settings of a call, of class `Use`: values in `given` override `own_use`,
        which overrides the defaults of the class.

        Args:
            given: Values of some settings, keyed by name.
        """
        return self.Use.made({**self._own_use, **given})

    # Inputs and outputs, for tasks that declare them

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Fields of the inputs, keyed by name, such as `{"text": TextInput(...)}`."""
        raise NotImplementedError

    @property
    def outputs(self) -> Mapping[str, Any]:
        """Fields of the outputs, keyed by name, such as `{"label": Label(...)}`."""
        raise NotImplementedError

    def signatures(self, use: Any) -> Mapping[str, Signature]:
        """Returns a `Signature` (inputs and outputs) for each signature of the SavedModel, keyed by
        the name of the signature.

        Args:
            use: Settings of class `Use`.
        """
        return {
            "serving_default": Signature(tuple(self.inputs), Together(self.inputs), self.outputs)
        }

    def run(self, xp: ArrayModule, tensors: Mapping[str, Any], use: Any) -> dict[str, Any]:
        """Computes the tensors for the outputs; called by predictions in Python and by the
        SavedModel.

        Args:
            xp: The array module of the tensors: `keras.ops`, or `numpy` if the task overrides
                `computed`.
            tensors: A dict of encoded inputs with the batch as their first axis.
            use: Settings of class `Use`.

        Returns:
            A dict of the tensors that the fields in `outputs` read, keyed by name.
        """
        raise NotImplementedError

    def computed(self, tensors: Mapping[str, Any], use: Any) -> dict[str, Any]:
        """Computes the result of `run` in Python, by default with `run` compiled.

        Args:
            tensors: A dict of arrays of encoded inputs, with the batch as their first axis.
            use: Settings of class `Use`.

        Returns:
            A dict of the arrays that the fields in `outputs` read, keyed by name.
        """
        return self._run_compiled(tensors, use, use)

    def _run_compiled(self, tensors: Mapping[str, Any], use: Any, key: Hashable) -> dict[str, Any]:
        """Calls `run`, which is compiled once for each key."""
        names = list(tensors)

        def make() -> CompiledFunction:
            return CompiledFunction(
                lambda first, length, *rest: self.run(
                    ops, dict(zip(names, (first, *rest), strict=True)), use
                ),
                self.model,
            )

        first, *rest = tensors.values()
        return self.kept(make, "run", key)(first, 1, *rest)

    def computed_graph(
        self, tf: ModuleType, tensors: Mapping[str, Any], use: Any
    ) -> Mapping[str, Any]:
        """Computes the result of `run` with TensorFlow ops, in the graph of the SavedModel.

        Args:
            tf: The module TensorFlow.
            tensors: A dict of symbolic tensors of encoded inputs.
            use: Settings of class `Use`.

        Returns:
            A dict of the symbolic tensors that the fields in `outputs` read, keyed by name.
        """
        return self.run(ops, tensors, use)

    def _computed(self, inputs: Mapping[str, Any], use: Any) -> dict[str, list[Any]]:
        """The outputs of a batch as lists."""
        return self._decoded(self.signatures(use)["serving_default"], inputs, use)

    def _decoded(self, signature: Signature, inputs: Mapping[str, Any], use: Any) -> dict[str, Any]:
        """The outputs of a signature."""
        tensors = self._tensors(signature, inputs, use)
        return {name: field.decode(tensors) for name, field in signature.outputs.items()}

    def _tensors(self, signature: Signature, inputs: Mapping[str, Any], use: Any) -> dict[str, Any]:
        """The tensors for the outputs of a signature."""
        use = use if signature.use is None else signature.use
        tensors = signature.field.encode(*(inputs[name] for name in signature.inputs))
        return {**tensors, **self.computed(tensors, use)}

    def unsure(self, tensors: Mapping[str, Any]) -> Collection[str]:
        """Returns the names of outputs that may differ between machines and that the check of an
        export therefore does not compare.

        Args:
            tensors: The encoded inputs, and the result of `computed` for them.
        """
        return ()

    # Export

    @property
    def spare_row(self) -> Mapping[str, Any]:
        """Values of the row that the SavedModel computes for an empty batch, keyed by input; other
        inputs are 0 or `""`."""
        return {}

    @property
    def export_tolerance(self) -> float:
        """Maximum difference between numbers of the SavedModel and of this object."""
        return 1e-4 if self.policy.compute_dtype == "float32" else 3e-2

    @property
    def export_share(self) -> float:
        """Minimum fraction of the example rows whose outputs in the SavedModel must equal the
        outputs of this object.

        In a quantized model, activations are rounded to 8 bits, so that a difference in the last
        bit of a float may change a token and all later tokens.
        """
        return 0.5 if quantized_sublayers(self.whole) else 1.0

    def checked_use(self, use: Any) -> Any:
        """Returns the settings of an export, or raises a ValueError if the model cannot use them.

        Args:
            use: Settings of class `Use`.
        """
        return use

    def export_examples(self) -> dict[str, Any]:
        """Returns inputs for checking an export, including unusual ones: a dict from the name of an
        input to a list of values."""
        return {name: field.examples for name, field in self.inputs.items()}

    def expected(self, examples: Mapping[str, Any], use: Any) -> dict[str, dict[str, Any]]:
        """Computes the outputs that the SavedModel must return.

        Args:
            examples: The result of `export_examples`.
            use: Settings of class `Use`.

        Returns:
            A dict from the name of a signature to its outputs: a dict of lists, keyed by output.
        """
        expected: dict[str, dict[str, Any]] = {}
        for name, signature in self.signatures(use).items():
            tensors = self._tensors(signature, examples, use)
            unsure = self.unsure(tensors)
            outputs = {x: field for x, field in signature.outputs.items() if x not in unsure}
            expected[name] = {x: field.decode(tensors) for x, field in outputs.items()}
        return expected

    def served_numbers(self, use: Any) -> dict[str, tuple[Any, Any]]:
        """Returns the numeric settings that are inputs of the signature `with_settings`. If there
        are none, the SavedModel does not have this signature.

        Otherwise, `with_settings` has the inputs and outputs of `serving_default` and, for each
        setting, an input with a number for each row. `run` receives these numbers as tensors under
        the names of the settings.

        Args:
            use: Settings of the export.

        Returns:
            A dict from names of settings to the value in `use` and another value for checking the
            export.
        """
        return {}

    def serve(self, tf: Any, use: Any) -> tuple[dict[str, Callable], list[Any]]:
        """Returns the functions of the SavedModel, keyed by signature, and their `tf.Module`s.

        Each function accepts input tensors with at least one row as keyword arguments, and returns
        a dict of tensors; the batch is the first axis of all inputs and outputs.

        Args:
            tf: The module TensorFlow.
            use: Settings of class `Use`.
        """
        functions: dict[str, Callable] = {}
        resources: list[Any] = []
        for name, signature in self.signatures(use).items():
            encode, modules = signature.field.to_graph(tf)
            functions[name] = self._served(tf, signature, encode, use)
            resources += modules
            for field in signature.outputs.values():
                resources += field.modules() if isinstance(field, WithModules) else []
        if self.served_numbers(use):
            functions[WITH_SETTINGS] = functions["serving_default"]
        return functions, resources

    def _served(
        self, tf: ModuleType, signature: Signature, encode: Callable, use: Any
    ) -> Callable[..., dict[str, Any]]:
        """The function of a signature."""
        use = use if signature.use is None else signature.use

        def serve(**raw: Any) -> dict[str, Any]:
            tensors = encode(*(raw.pop(name) for name in signature.inputs))
            tensors = {**tensors, **checked_numbers(tf, raw)}
            tensors = {**tensors, **self.computed_graph(tf, tensors, use)}
            return {name: field.graph(tf, tensors) for name, field in signature.outputs.items()}

        return serve

    def exported_rows(self) -> tuple[EncoderInput, Mapping[str, np.ndarray]]:
        """Returns what `export` needs for ONNX and LiteRT files. By default, raises an error.

        Returns:
            The field that encodes the texts that `model` reads; and a dict of inputs of `model` for
            checking the export.

        Raises:
            ValueError: If the model does not compute its outputs from one row of ids at once.
        """
        raise ValueError(
            "Only encoders of texts can be exported to ONNX and LiteRT, because their model "
            f"computes its outputs from ids in one pass. Received: a {type(self).__name__}. Use "
            "format='saved_model'."
        )

    def exported_values(self) -> dict[str, Any]:
        """Returns a dict for `model.json`: what a program needs besides the model, the tokenizer
        and the labels of an ONNX or LiteRT file. By default, the other learned values."""
        found = self.learned.to_config()
        named = ("labels", "class_names")
        kept = {n: x for n, x in found.items() if n not in named and not isinstance(x, dict)}
        return {"learned": kept}

    def export(
        self,
        path: str | os.PathLike,
        *,
        overwrite: bool = False,
        format: str = "saved_model",
        **use: Any,
    ) -> None:
        """Exports a TensorFlow SavedModel from strings to strings, or an ONNX or LiteRT file.

        To load a SavedModel, only `import tensorflow` is needed, and also `import tensorflow_text`
        with a `SentencePieceTokenizer`. The folder contains `requirements.txt` with versions and,
        if requests are limited, `limits.json`. The SavedModel is first written to a temporary
        folder, loaded, and compared with this object. On JAX and PyTorch, a child process with the
        TensorFlow backend performs the export.

        The other formats contain `model`, which computes logits or vectors from ids. They are
        available for tasks with an encoder. The folder contains `model.onnx` or `model.tflite`, the
        tokenizer, and `model.json` with inputs, outputs, labels and learned values. See
        `keras_attn.interop.export_model`.

        Args:
            path: Folder of the export.
            overwrite: Whether an existing export is replaced when the new one is complete.
            format: `"saved_model"`, `"onnx"`, `"onnx-int8"` or `"litert"`.
            **use: Settings of class `Use`, for a SavedModel. `batch_size` is the number of rows
                that are processed at once.

        Raises:
            FileExistsError: If the folder is not empty, unless it is an export and `overwrite` is
                True.
            ImportError: If the packages of the format are not installed.
            PermissionError: If the parent folder cannot be written to.
            RuntimeError: If the outputs of the export differ from this object's.
            TypeError: If a setting is unknown.
            ValueError: If a setting is out of range or not one of its choices, or the task cannot
                be exported in this format.
        """
        made = self.used(use)
        if format != "saved_model":
            self._export_model(path, overwrite, format, use)
            return
        settings = self.checked_use(made)
        size = getattr(made, "batch_size", _BATCH_SIZE)
        if keras.backend.backend() != "tensorflow":
            export_in_child_process(type(self), self.save, path, overwrite=overwrite, **use)
            return
        check_place(path, overwrite)  # before the work
        tell("computing the expected outputs of example inputs")
        examples = self.export_examples()
        rows = max(len(x) for x in examples.values() if np.ndim(x))
        expected = self.expected(examples, settings)
        taken = {**dict.fromkeys(expected, tuple(examples)), **self.signature_inputs}
        spare = dict(self.spare_row)
        numbers = self.served_numbers(settings)
        if numbers:
            own = expected["serving_default"]
            given = expected_with_settings(self.expected, own, examples, settings, numbers)
            expected = {**expected, WITH_SETTINGS: given}
            examples = {**examples, **number_columns(numbers, rows)}
            taken[WITH_SETTINGS] = tuple(examples)
            spare |= {name: own for name, (own, _) in numbers.items()}
        check_batch_first(expected, rows)

        def functions(tf: Any) -> tuple[dict[str, Callable], list[Any]]:
            functions, resources = self.serve(tf, settings)
            for name, function in functions.items():
                whole = self.whole_inputs.get(name, ())
                if self.parts_rows:
                    function = in_parts(tf, function, size, whole)
                functions[name] = with_a_row(tf, function, spare, whole)
            return functions, resources

        share = self.export_share
        export_text_functions(
            path,
            functions,
            self.whole.variables,
            examples,
            expected,
            tolerance=max(self.export_tolerance, 0.0 if share == 1 else 3e-2),
            share=share,
            overwrite=overwrite,
            requirements=self.exported_with(),
            taken=taken,
            limits={name: getattr(settings, name) for name in self.limits},
        )

    def _export_model(
        self, path: str | os.PathLike, overwrite: bool, format: str, use: Mapping[str, Any]
    ) -> None:
        """Exports only the model, for runtimes without TensorFlow."""
        check_format(format)
        own = self.used({})
        given = {name: x for name, x in vars(self.used(use)).items() if x != getattr(own, name)}
        if given:
            raise ValueError(
                "Settings of use are only available with format='saved_model'. Received: "
                f"{given} with format={format!r}."
            )
        field, inputs = self.exported_rows()
        learned = self.learned.to_config()
        with replaced_folder(path, overwrite) as folder:
            folder.mkdir()
            file = f"model.{'tflite' if format == 'litert' else 'onnx'}"
            tolerance = self.export_tolerance
            export_model(folder / file, self.model, inputs, format, tolerance=tolerance)
            about = {
                "task": type(self).__name__,
                "model": file,
                "inputs": {name: str(x.dtype) for name, x in inputs.items()},
                "outputs": output_names(self.model),
                "tokenizer": write_tokenizer(folder, field),
                "max_length": field.max_length,
                "pad_id": field.tokenizer.pad_id,
                "labels": learned.get("labels", learned.get("class_names")),
                **self.exported_values(),
            }
            text = json.dumps(about, ensure_ascii=False, indent=1) + "\n"
            (folder / "model.json").write_text(text, encoding="utf-8")

    def exported_with(self) -> Sequence[str]:
        """Returns the modules that a process must import to load the SavedModel."""
        modules = dict.fromkeys(("tensorflow",))
        for value in vars(self.learned).values():
            modules.update(dict.fromkeys(getattr(value, "exported_with", ())))
        return tuple(modules)
