import { type Ask, type Decision, decide } from '../../src/store/decisions/decision.ts';
import type { Sql, SqlValue } from '../../src/store/postgres/sql.ts';

export interface Node {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows'?: number;
  readonly 'Actual Loops'?: number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Node[];
}

/** The plan of a statement, by EXPLAIN with these options. */
export async function planOf({ port }: Sql, how: string, text: string, values: readonly SqlValue[] = []) {
  const query = { strings: [`EXPLAIN (${how}, FORMAT JSON) ${text}`], values, isFixed: false };
  const [row] = await decide(asked(port.all<{ 'QUERY PLAN': readonly [{ readonly Plan: Node }] }>(query)));
  return row === undefined ? [] : nodesOf(row['QUERY PLAN'][0].Plan);
}

export function nodesOf(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

export function* asked<Value>(ask: Ask<Value>): Decision<Value> {
  return yield* ask;
}
