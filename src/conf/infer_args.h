/* SPDX-License-Identifier: Apache-2.0 */
/* infer_args.h - the options of inference, as ONE table: `paddlectl infer` shows and checks them,
 * and `paddle_worker infer` runs with the same words. */
#pragma once

#define PD_INFER_ARGS(X)                                                                           \
    X(model, "model=FOLDER",                                                                       \
      "the saved model, or a folder whose newest model is used; default: the newest model in the " \
      "outputs of conf.ini, then in the workspace's output")                                       \
    X(data, "data=FILE",                                                                           \
      "data in the format of the training data: a file, a pattern, or - for standard input; "      \
      "required")                                                                                  \
    X(tokens, "tokens=words|blanks",                                                               \
      "the data are sentences and not ids: vocabulary_file has the ids of their words; words: "    \
      "letters a to z in lower case, and numbers; blanks: any text between blanks; as in prepare") \
    X(workspace, "workspace=FOLDER",                                                               \
      "folder with the model's vocabulary_file; default: job_dispatch_package of conf.ini, else "  \
      "workspace, else the current folder")                                                        \
    X(train_ini, "train_ini=FILE",                                                                 \
      "network to use instead of the network that the model was trained with")                     \
    X(layer, "layer=NAME", "layer whose output is printed; default: the input of the first cost")  \
    X(batch_size, "batch_size=N",                                                                  \
      "samples of a batch; default: 256; 1: the answer to each line is printed at once")           \
    X(top, "top=K",                                                                                \
      "only the K largest outputs, as class:value; default: 5 if the classes have names, else "    \
      "all outputs")                                                                               \
    X(verify, "verify=true|false",                                                                 \
      "first verify the checksums of the model's files, which reads all of it; default: true")

/* Options without a value. */
#define PD_INFER_FLAGS(X) \
    X(ids, "print numbers, not the words of vocabulary_file and the labels of train.ini")
