/** Of a trigger, as the API shows it. */
interface Trigger {
  readonly key: string;
  readonly type: string;
  readonly holdsDeliveries?: boolean | undefined;
}

/** Undefined where the flow has no webhook. A drain holds them, unless somebody says otherwise. */
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

/** What a person chooses for deliveries to a flow that is closed. */
export const whileClosed = {
  choice,
  // Nothing where its triggers say.
  said: (chosen: string | undefined) => (chosen === 'hold' || chosen === 'refuse' ? { hold: chosen === 'hold' } : {}),
};

export const actions = { discardHeld: 'Discard held deliveries' };
