import pino, { type LevelWithSilent, type Logger } from 'pino';
import { printableLines } from '../model/text.ts';
import { readableLine } from './readable-log.ts';
import { createTurnLines } from './turn-lines.ts';

/**
 * For people at a terminal, lines that they can read. Else JSON, written in the background and several lines at a time:
 * logging must not delay a delivery.
 */
export function createLogger(level: LevelWithSilent): Logger {
  const { stdout } = process;
  if (stdout.isTTY) {
    const hasColors = stdout.hasColors();
    const write = (line: string) => void stdout.write(readableLine(line, { hasColors }));
    return pino({ level }, { write });
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
  return pino({ level }, lines);
}
