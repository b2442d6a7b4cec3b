/** Where the command sends to when it is told nothing. */
const USUAL_ORIGIN = 'http://127.0.0.1:3000';

/** The command line that signs a sample delivery for a webhook and sends it to this service. */
export function sendCommand(slugOrId: string, origin = location.origin): string {
  return `npx sluice send ${slugOrId}${origin === USUAL_ORIGIN ? '' : ` --to ${origin}`}`;
}
