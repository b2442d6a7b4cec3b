import { format, timesIn } from '../format.ts';
import { createState, useShared } from '../state.ts';

const TICK_MS = 5000;
const now = createState(Date.now());
// One clock for every time on the page.
setInterval(() => now.set(Date.now()), TICK_MS);

interface TimeProps {
  readonly at: string | null | undefined;
  /** Shows the time of day first, if there is room: in lists, whose rows would otherwise all read the same. */
  readonly withClock?: boolean;
}

/** How long ago, or in how long; on hovering, the exact time, here and in UTC. */
export function Time({ at, withClock = false }: TimeProps) {
  const current = useShared(now);
  if (at === null || at === undefined) return <span class="muted">–</span>;
  const ms = Date.parse(at);
  return (
    <time dateTime={at} title={`${format.exactTime(ms)}\n${at}`}>
      {withClock ? <span class="clock">{format.clockTime(ms, current)}</span> : null}
      {format.relativeTime(ms, Math.max(current, now.get()))}
    </time>
  );
}

/** How long something took, or has taken so far. */
export function Duration({ from, to }: { from: string | null; to: string | null }) {
  const current = useShared(now);
  if (from === null) return <span class="muted">–</span>;
  const end = to === null ? Math.max(current, Date.parse(from)) : Date.parse(to);
  return (
    <span class="nowrap" title={to === null ? 'So far' : undefined}>
      {format.duration(end - Date.parse(from))}
    </span>
  );
}

/** A message with its times in the reader's time zone. */
export function Message({ text: message }: { text: string }) {
  return (
    <>
      {timesIn(message).map(({ text, ms }) =>
        ms === undefined ? (
          text
        ) : (
          <time key={text} dateTime={text} title={`${format.exactTime(ms)}\n${text}`}>
            {format.clockTime(ms, Date.now()).replace(/:00$/, '')}
          </time>
        ),
      )}
    </>
  );
}
