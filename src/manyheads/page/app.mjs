// The page: starts its parts. Training, proofs and files are in workers; this thread draws.
import { startOwn } from "./own.mjs";
import { startPaper } from "./paper.mjs";
import { startPlay } from "./play.mjs";
import { startProve } from "./prove.mjs";
import { startWorker } from "./view.mjs";

startWorker();
startProve();
startPlay();
startOwn();
startPaper();
