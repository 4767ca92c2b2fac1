#pragma once
/*
 * The verbs: each is a whole command. argv[0] is the verb's name (the program's for the live screen without a verb).
 * They return the exit status: 0 done, 1 run-time failure or nothing to read, 2 wrong usage (`why --check`: 3 something really waits).
 */
int live_main(int argc, char **argv);
int cpu_main(int argc, char **argv);
int disk_main(int argc, char **argv);
int task_main(int argc, char **argv);
int blk_main(int argc, char **argv);
int why_main(int argc, char **argv);
int record_main(int argc, char **argv);
int mark_main(int argc, char **argv);
int capture_main(int argc, char **argv);
int report_main(int argc, char **argv);
int compare_main(int argc, char **argv);
int replay_main(int argc, char **argv);
int log_main(int argc, char **argv);
int export_main(int argc, char **argv);
int metrics_main(int argc, char **argv);
