import type { Decision } from './decision.ts';
import { fixed, type Port, sql } from './port.ts';

/** The most that may be kept. */
export interface Bounds {
  readonly maxRows: number;
  readonly maxBytes: number;
}

export interface Size {
  readonly rows: number;
  readonly bytes: number;
}

/** How much is stored of one kind of bounded deliveries. */
export function* measureKept(port: Port, kept: 'refused' | 'held'): Decision<Size> {
  const kind = fixed(kept);
  const size = yield* port.get<Size>(sql`
    SELECT coalesce(sum(rows), 0) AS rows, coalesce(sum(bytes), 0) AS bytes
    FROM sluice.kept_sizes /*sqlite instead: ${kind}_state */ WHERE kind /*sqlite instead: '${kind}' */ = '${kind}'`);
  return size ?? { rows: 0, bytes: 0 };
}
