/* infer_args.h - the options of inference, as ONE table: `paddlectl infer` shows and checks them,
 * and `paddle_worker infer` runs with the same words. */
#ifndef PD_CONF_INFER_ARGS_H
#define PD_CONF_INFER_ARGS_H

#define PD_INFER_ARGS(X)                                                                          \
    X(model, "model=FOLDER", "the saved model; required")                                         \
    X(data, "data=FILE",                                                                          \
      "data in the format of the training data: a file, a pattern, or - for standard input; "     \
      "required")                                                                                 \
    X(workspace, "workspace=FOLDER",                                                              \
      "folder with the model's vocabulary_file; default: the current folder")                     \
    X(train_ini, "train_ini=FILE",                                                                \
      "network to use instead of the network that the model was trained with")                    \
    X(layer, "layer=NAME", "layer whose output is printed; default: the input of the first cost") \
    X(batch_size, "batch_size=N",                                                                 \
      "samples of a batch; default: 256; 1: the answer to each line is printed at once")          \
    X(top, "top=K", "only the K largest outputs, as class:value")                                 \
    X(verify, "verify=true|false",                                                                \
      "first verify the checksums of the model's files, which reads all of it; default: true")

#endif
