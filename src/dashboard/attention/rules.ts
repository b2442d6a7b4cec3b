import type { AttentionKind, AttentionKinds } from '../../model/attention.ts';
import type { DashboardServices } from '../services.ts';
import type { Finding, Situation } from './situation.ts';

type Find<Kind extends AttentionKind> = (
  situation: Situation,
  services: DashboardServices,
) => readonly Finding<Kind>[] | Promise<readonly Finding<Kind>[]>;

/** What a part tells operators to look at. It reads what it needs by itself. */
export type AttentionRules = Find<AttentionKind>;

/** The rules of a part that gives these kinds. One that they never give does not compile. */
export function rulesFor<Kinds extends AttentionKinds, Kind extends keyof Kinds & AttentionKind>(
  _kinds: [keyof Kinds] extends [Kind] ? Kinds : never,
  find: Find<Kind>,
): AttentionRules {
  return find;
}
