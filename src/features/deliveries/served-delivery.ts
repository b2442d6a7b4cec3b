/** The part of a delivery that commands show. */
export interface ServedDelivery {
  readonly id: string;
  readonly flowId: string | null;
  readonly triggerKey: string | null;
  readonly receivedAt: string;
  readonly clientIp: string;
  readonly mode: string;
  readonly statusCode: number;
  readonly reason: string | null;
  readonly detail: string | null;
  readonly runId: string | null;
  readonly outcome: string | null;
  readonly held: boolean;
}

/** The result of a delivery in a few words. */
export function resultOf({ statusCode, runId, held, outcome, reason, mode }: ServedDelivery): string {
  const why = reason === null ? '' : `: ${reason}`;
  if (statusCode >= 400) return `refused${why}`;
  if (held) return `held${why}`;
  if (outcome === 'givenUp') return 'given up';
  if (outcome !== null) return `${outcome === 'unevaluated' ? 'accepted, unevaluated' : outcome}${why}`;
  if (runId === null) return `no run${why}`;
  return reason === null ? 'accepted' : `accepted in ${mode} mode${why}`;
}
