import { printableLines } from '../model/text.ts';

/** Writes lines to the terminal. Senders and deploys choose parts of what is written: none of it can steer the terminal. */
export function print(text: string): void {
  process.stdout.write(printableLines(text));
}

/** As `print`, for what is not the result: messages, progress and errors. */
export function printError(text: string): void {
  process.stderr.write(printableLines(text));
}
