import pino, { type LevelWithSilent, type Logger, type LoggerOptions } from 'pino';
import { writable } from '../model/error-kind.ts';
import { printableLines } from '../model/text.ts';
import { readableLine } from './readable-log.ts';
import { limitRepeats } from './repeats.ts';
import { createTurnLines } from './turn-lines.ts';

/**
 * For people at a terminal, lines that they can read. Else JSON, written in the background and several lines at a time:
 * logging must not delay a delivery. What one cause repeats is limited.
 */
export function createLogger(level: LevelWithSilent): Logger {
  const { stdout } = process;
  const hooks = limitFaults();
  process.on('exit', hooks.flush);
  if (stdout.isTTY) {
    const hasColors = stdout.hasColors();
    const write = (line: string) => void stdout.write(readableLine(line, { hasColors }));
    return pino({ level, hooks }, { write });
  }
  const destination = pino.destination({ dest: 1, sync: false });
  // Who follows the log of a container reads it on a terminal too: what steers one is escaped, which says the same in JSON.
  const lines = createTurnLines((text) => void destination.write(printableLines(text)));
  process.on('exit', () => {
    try {
      lines.flush();
      destination.flushSync();
    } catch {
      // Nobody reads the log any more, and this is no place to say so.
    }
  });
  return pino({ level, hooks }, lines);
}

/** Pino's hooks that limit warnings and errors; other lines are asked for one by one, and what is fatal ends the process. */
export function limitFaults(): Required<Pick<NonNullable<LoggerOptions['hooks']>, 'logMethod'>> & { flush(): void } {
  const { log, flush } = limitRepeats();
  return {
    logMethod(args, write, level) {
      try {
        if (level === 40 || level === 50) log(this, args, write);
        else write.apply(this, args);
      } catch {
        // It is of operators' code: an error that is frozen, or throws when it is read.
        log(this, [{ err: writable(args[0]) }, ...args.slice(1)] as never, write);
      }
    },
    flush,
  };
}
