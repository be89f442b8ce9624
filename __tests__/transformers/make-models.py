"""Makes the models of the transformers.js tests: real architectures as optimum exports them, small, with seeded weights.

    python -m venv venv && venv/bin/pip install -r __tests__/transformers/requirements.txt
    venv/bin/python __tests__/transformers/make-models.py FOLDER
    python __tests__/transformers/make-dtypes.py FOLDER __tests__/transformers/models

This script writes the float32 models; make-dtypes.py makes the other dtypes of some of them and packs everything. They are two, since
the exporter needs an older onnx than the quantizers.
"""

import json
import os
import sys

import torch
import transformers as t
from optimum.exporters.onnx import main_export, model_configs

# transformers.js does not pass Whisper's cache_position, and the models of its hub have no such input.
since = model_configs.check_if_transformers_greater
model_configs.check_if_transformers_greater = lambda version: version != "4.43.0" and since(version)

OUT = sys.argv[1]
ONLY = sys.argv[2:]

WORDS = """the a an of to in and is it on for with that this was he she they we you i at by from as are be were not or but what who where
when which one two three river mountain city street house dog cat bird fish horse tree flower car train ship plane book paper letter word
number red green blue black white big small old new good bad fast slow happy sad day night year week summer winter rain snow sun moon
star music song dance game play work school teacher student doctor king queen man woman child friend paris london berlin anna john maria
lives works runs reads writes eats drinks sees hears likes loves makes takes gives goes comes about example politics sport science
economy travel film food water bread wine tea""".split()
LETTERS = list("abcdefghijklmnopqrstuvwxyz")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = SPECIAL + LETTERS + ["##" + letter for letter in LETTERS] + list("0123456789.,!?'-()") + [w for w in dict.fromkeys(WORDS) if w not in LETTERS]
SIZE = len(VOCABULARY)
PAD, UNK, CLS, SEP, MASK = range(5)
# Whisper's own, behind the others: the token after the last of these stands for the time 0.
SPEECH = ["<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|translate|>", "<|notimestamps|>"]
TIMES = 101


def special(name):
    return {"id": VOCABULARY.index(name), "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def tokenizer(kind):
    """A tokenizer.json: WordPiece on one small vocabulary."""
    pairs, end_only = kind not in ("GPT2Tokenizer", "WhisperTokenizer"), kind == "T5Tokenizer"
    extra = SPEECH if kind == "WhisperTokenizer" else []
    single = ([] if end_only else [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}]) + [{"Sequence": {"id": "A", "type_id": 0}}]
    single += [{"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    pair = single + [{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}]
    template = {
        "type": "TemplateProcessing",
        "single": single,
        "pair": pair,
        "special_tokens": {name: {"id": name, "ids": [VOCABULARY.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")},
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [special(name) for name in SPECIAL] + [{**special("[PAD]"), "id": SIZE + i, "content": name} for i, name in enumerate(extra)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template if pairs else None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: i for i, word in enumerate(VOCABULARY)},
        },
    }


def tokenizer_config(kind):
    return {
        "tokenizer_class": kind,
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
        "bos_token": "[CLS]",
        "eos_token": "[SEP]",
        "model_max_length": 64,
        "do_lower_case": True,
        "clean_up_tokenization_spaces": True,
    }


def dump(value, *path):
    with open(os.path.join(OUT, *path), "w") as file:
        json.dump(value, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


def seeded(model):
    """Weights from a generator of their own: larger than a fresh network's, so that outputs differ clearly; bfloat16, so that they pack."""
    generator = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            scale = 0.1 if parameter.dim() < 2 else min(1.0, 1.4 / parameter[0].numel() ** 0.5)
            drawn = torch.randn(parameter.shape, generator=generator) * scale
            if parameter.dim() < 2 and name.endswith("weight"):
                drawn += 1
            if "embed" in name or name in ("shared.weight", "transformer.wte.weight"):
                drawn = torch.randn(parameter.shape, generator=generator) * 0.5
            parameter.copy_(drawn.to(torch.bfloat16).float())
    for name, buffer in model.named_buffers():
        if name.endswith(("running_var", "running_mean")):
            with torch.no_grad():
                drawn = torch.rand(buffer.shape, generator=generator) * 0.5 + (0.5 if name.endswith("var") else 0)
                buffer.copy_(drawn.to(torch.bfloat16).float())
    return model.eval()


IDS = {"pad_token_id": PAD, "bos_token_id": CLS, "eos_token_id": SEP}
BERT = {"vocab_size": SIZE, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 66, **IDS}
DISTIL = {"vocab_size": SIZE, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "max_position_embeddings": 64, "pad_token_id": PAD}
SEEK = {"vocab_size": SIZE, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64, "decoder_start_token_id": SEP, "forced_eos_token_id": None, **IDS}


def labels(*names):
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


IMAGE = {"do_resize": True, "do_rescale": True, "do_normalize": True, "rescale_factor": 1 / 255, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2}

# name: (model, task of the exporter, class of the tokenizer, what the preprocessor is told)
MODELS = {
    "minilm": lambda: (t.BertModel(t.BertConfig(**BERT)), "feature-extraction", "BertTokenizer", None),
    "distilbert-sst2": lambda: (
        t.DistilBertForSequenceClassification(t.DistilBertConfig(**DISTIL, **labels("NEGATIVE", "POSITIVE"))), "text-classification", "DistilBertTokenizer", None),
    "bert-ner": lambda: (
        t.BertForTokenClassification(t.BertConfig(**BERT, **labels("O", "B-PER", "I-PER", "B-LOC", "I-LOC"))), "token-classification", "BertTokenizer", None),
    "distilbert-qa": lambda: (t.DistilBertForQuestionAnswering(t.DistilBertConfig(**DISTIL)), "question-answering", "DistilBertTokenizer", None),
    "deberta-nli": lambda: (
        t.DebertaV2ForSequenceClassification(t.DebertaV2Config(
            **{**BERT, "max_position_embeddings": 64}, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=16, share_att_key=True,
            norm_rel_ebd="layer_norm", position_biased_input=False, type_vocab_size=0, **labels("contradiction", "entailment", "neutral"))),
        "zero-shot-classification", "BertTokenizer", None),
    "roberta-mlm": lambda: (t.RobertaForMaskedLM(t.RobertaConfig(**BERT)), "fill-mask", "RobertaTokenizer", None),
    "bart": lambda: (t.BartForConditionalGeneration(t.BartConfig(**SEEK)), "text2text-generation-with-past", "BartTokenizer", None),
    "t5": lambda: (
        t.T5ForConditionalGeneration(t.T5Config(
            vocab_size=SIZE, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_decoder_layers=1, num_heads=2, relative_attention_num_buckets=8,
            decoder_start_token_id=PAD, feed_forward_proj="gated-gelu", **IDS)),
        "text2text-generation-with-past", "T5Tokenizer", None),
    "marian": lambda: (
        t.MarianMTModel(t.MarianConfig(**{**SEEK, "decoder_start_token_id": PAD}, scale_embedding=True, activation_function="swish")),
        "text2text-generation-with-past", "BertTokenizer", None),
    "gpt2": lambda: (
        t.GPT2LMHeadModel(t.GPT2Config(vocab_size=SIZE, n_positions=64, n_embd=32, n_layer=2, n_head=2, n_inner=64, **IDS)),
        "text-generation-with-past", "GPT2Tokenizer", None),
    "llama": lambda: (
        t.LlamaForCausalLM(t.LlamaConfig(
            vocab_size=SIZE, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=64, **IDS)),
        "text-generation-with-past", "LlamaTokenizer", None),
    "vit": lambda: (
        t.ViTForImageClassification(t.ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8,
            **labels("cat", "dog", "bird", "fish", "car", "ship"))),
        "image-classification", None, {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}, **IMAGE}),
    "resnet": lambda: (
        t.ResNetForImageClassification(t.ResNetConfig(
            embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="bottleneck", **labels("cat", "dog", "bird", "fish", "car", "ship"))),
        "image-classification", None,
        {"image_processor_type": "ConvNextFeatureExtractor", "size": {"shortest_edge": 48}, "crop_pct": 0.875, **IMAGE}),
    "detr": lambda: (
        t.DetrForObjectDetection(t.DetrConfig(
            use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
            backbone_config=t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"]),
            d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64,
            decoder_ffn_dim=64, num_queries=8, **labels("cat", "dog", "bird"))),
        "object-detection", None,
        {"image_processor_type": "DetrImageProcessor", "do_pad": True, "size": {"shortest_edge": 48, "longest_edge": 80}, **IMAGE}),
    "yolos": lambda: (
        t.YolosForObjectDetection(t.YolosConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=[48, 64], patch_size=8,
            num_detection_tokens=8, **labels("cat", "dog", "bird"))),
        "object-detection", None,
        {"image_processor_type": "YolosImageProcessor", "do_pad": True, "size": {"shortest_edge": 48, "longest_edge": 80}, **IMAGE}),
    "whisper": lambda: (
        t.WhisperForConditionalGeneration(t.WhisperConfig(
            vocab_size=SIZE + len(SPEECH) + TIMES, num_mel_bins=8, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=100, max_target_positions=32, decoder_start_token_id=SIZE,
            begin_suppress_tokens=None, suppress_tokens=None, **IDS)),
        "automatic-speech-recognition-with-past", "WhisperTokenizer",
        {"feature_extractor_type": "WhisperFeatureExtractor", "chunk_length": 2, "feature_size": 8, "hop_length": 160, "n_fft": 400, "n_samples": 32000,
         "nb_max_frames": 200, "padding_side": "right", "padding_value": 0.0, "return_attention_mask": False, "sampling_rate": 16000,
         "processor_class": "WhisperProcessor"}),
    "wav2vec2": lambda: (
        t.Wav2Vec2ForCTC(t.Wav2Vec2Config(
            vocab_size=SIZE, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, conv_dim=[16, 16, 16],
            conv_kernel=[10, 8, 4], conv_stride=[5, 8, 4], num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, **IDS)),
        "automatic-speech-recognition", "Wav2Vec2CTCTokenizer",
        {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "do_normalize": True, "feature_size": 1, "padding_side": "right", "padding_value": 0,
         "return_attention_mask": False, "sampling_rate": 16000, "processor_class": "Wav2Vec2Processor"}),
}


def make(name):
    model, task, kind, preprocessor = MODELS[name]()
    folder = os.path.join(OUT, name)
    os.makedirs(folder, exist_ok=True)
    seeded(model)
    if hasattr(model, "generation_config") and model.generation_config is not None:
        model.generation_config.max_length = 20
        if name == "whisper":
            model.generation_config.no_timestamps_token_id = SIZE + len(SPEECH) - 1
            model.generation_config.is_multilingual = False
    model.save_pretrained(os.path.join(folder, "torch"))
    if kind is not None:
        dump(tokenizer(kind), name, "tokenizer.json")
        dump(tokenizer_config(kind), name, "tokenizer_config.json")
    if preprocessor is not None:
        dump(preprocessor, name, "preprocessor_config.json")
    for file in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json"):
        path = os.path.join(folder, file)
        if os.path.exists(path):
            os.link(path, os.path.join(folder, "torch", file)) if not os.path.exists(os.path.join(folder, "torch", file)) else None
    sizes = {"nb_max_frames": 200, "feature_size": 8} if name == "whisper" else {}
    main_export(os.path.join(folder, "torch"), output=os.path.join(folder, "onnx"), task=task, do_validation=False, no_dynamic_axes=False,
                library_name="transformers", **sizes)
    print(name, sorted(os.listdir(os.path.join(folder, "onnx"))), flush=True)


if __name__ == "__main__":
    for name in ONLY or MODELS:
        try:
            make(name)
        except Exception as error:  # the others are made all the same
            import traceback
            traceback.print_exc()
            print("FAILED", name, repr(error)[:300], flush=True)
