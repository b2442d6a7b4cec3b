/** A trigger in the API's answer. */
interface Trigger {
  readonly key: string;
  readonly type: string;
  readonly holdsDeliveries?: boolean | undefined;
}

/** The choice for deliveries to a closed flow; undefined if the flow has no webhook. A drain holds them by default. */
function choice(triggers: readonly Trigger[], until: 'enable' | 'resume') {
  const webhooks = triggers.filter(({ type }) => type === 'webhook');
  const holding = webhooks.filter(({ holdsDeliveries }) => holdsDeliveries === true).map(({ key }) => key);
  if (webhooks.length === 0) return undefined;
  const isMixed = holding.length > 0 && holding.length < webhooks.length;
  const options = [
    { value: 'hold', text: `are accepted, and run once you ${until} the flow` },
    { value: 'refuse', text: 'are refused with 403' },
    ...(isMixed ? [{ value: 'triggers', text: `are held for ${holding.join(', ')}, and refused for the others` }] : []),
  ];
  const asSaid = isMixed ? 'triggers' : holding.length > 0 ? 'hold' : 'refuse';
  return { label: 'Deliveries meanwhile', options, value: until === 'resume' ? 'hold' : asSaid };
}

/** The choice of a person for deliveries to a closed flow. */
export const whileClosed = {
  choice,
  // Nothing if the triggers decide.
  said: (chosen: string | undefined) => (chosen === 'hold' || chosen === 'refuse' ? { hold: chosen === 'hold' } : {}),
};
