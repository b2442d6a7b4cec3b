import type { Api } from '../api-types.ts';

/** What becomes of deliveries to a flow while it starts no runs: a sentence on the webhooks that hold them, and one on the others. */
export function stoppedWebhooks(triggers: Api['Flow']['triggers'], start: 'enable' | 'resume'): string[] {
  const webhooks = triggers.filter(({ type }) => type === 'webhook');
  const named = (holds: boolean) =>
    webhooks.filter(({ holdsDeliveries }) => (holdsDeliveries === true) === holds).map(({ key }) => `“${key}”`);
  const later = `Their runs start once you ${start} the flow.`;
  return [
    ...sentence(named(true), `Deliveries to %s are accepted and held. ${later}`),
    ...sentence(named(false), 'Deliveries to %s are refused with 403.'),
  ];
}

function sentence(names: readonly string[], text: string): string[] {
  if (names.length === 0) return [];
  const list = names.length === 1 ? `${names[0]}` : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
  return [text.replace('%s', () => list)];
}
