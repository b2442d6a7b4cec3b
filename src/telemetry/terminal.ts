import { printableLines } from '../model/text.ts';

/** Writes lines to the terminal. Parts come from senders and deploys: they cannot control the terminal. */
export function print(text: string): void {
  process.stdout.write(printableLines(text));
}

/** Like `print`, for everything but the result: messages, progress and errors. */
export function printError(text: string): void {
  process.stderr.write(printableLines(text));
}

/** As a shell reports a program that SIGPIPE ended. */
const PIPE_CLOSED = 141;

/**
 * Ends the process if its output cannot be written: quietly if the reader has left, as `head` does, otherwise with 2 and
 * an error. Messages that cannot be written are lost. Returns the function that stops this.
 */
export function endWithoutOutput(): () => void {
  const end = (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(PIPE_CLOSED);
    printError(`standard output: ${error.message}\n`);
    process.exit(2);
  };
  const ignore = () => {};
  process.stdout.on('error', end);
  process.stderr.on('error', ignore);
  return () => {
    process.stdout.off('error', end);
    process.stderr.off('error', ignore);
  };
}
