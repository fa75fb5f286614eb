/* infer_args.h - the options of inference: ONE table for `paddlectl infer`, which shows and checks
 * them, and for `paddle_worker infer`, which it runs with the same words. */
#ifndef PD_CONF_INFER_ARGS_H
#define PD_CONF_INFER_ARGS_H

#define PD_INFER_ARGS(X)                                                                        \
    X(model, "model=FOLDER", "the saved model; required")                                       \
    X(data, "data=FILE",                                                                        \
      "data as the model was trained on: a file, a pattern, or - for standard input; required") \
    X(workspace, "workspace=FOLDER",                                                            \
      "where the model's vocabulary_file is; default: the current folder")                      \
    X(train_ini, "train_ini=FILE",                                                              \
      "a network to use instead of the one that the model was trained with")                    \
    X(layer, "layer=NAME",                                                                      \
      "the layer whose output is told; default: the one that the first cost looks at")          \
    X(batch_size, "batch_size=N",                                                               \
      "samples that are computed at once; default: 256; 1: each line is answered at once")      \
    X(top, "top=K", "only the K largest outputs, as class:value")                               \
    X(verify, "verify=true|false",                                                              \
      "compute the checksums of the model's files first, which reads all of it; default: true")

#endif
