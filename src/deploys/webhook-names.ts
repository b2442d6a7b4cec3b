import type { LoadedFlow } from '../manifest/load.ts';

/** Slugs, in lower case: no two flows may have one name. */
export function takenNames(flows: readonly LoadedFlow[]): Set<string> {
  return new Set(
    flows.flatMap(({ webhooks }) => webhooks.flatMap(({ inputs }) => inputs.webhookSlug?.toLowerCase() ?? [])),
  );
}

/** The flow without the webhook triggers that answer to names of others. */
export function withoutNames(flow: LoadedFlow, names: ReadonlySet<string>): LoadedFlow {
  const webhooks = flow.webhooks.filter(({ inputs }) => !names.has(inputs.webhookSlug?.toLowerCase() ?? ''));
  return webhooks.length === flow.webhooks.length ? flow : { ...flow, webhooks };
}
