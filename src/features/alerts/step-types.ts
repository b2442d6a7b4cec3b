import { stepPart } from '../../config/step-part.ts';
import { leavesAlertFlow } from './alert-flow.ts';
import { createAlertSender, createSendAlertHandler } from './send.ts';

/** `SendAlert`, and what tells the targets. */
export const alertsStepTypes = stepPart({
  name: 'alerts',
  make({ settings, readSecret, inForce }) {
    // An alert may report an open circuit, and must be sent while it is open: its requests ask no host for a turn.
    const send = createAlertSender({
      targets: () => inForce().alerts?.targets ?? [],
      service: settings.serviceName,
      readSecret,
      egressAllow: settings.egressAllow,
    });
    return { handlers: [createSendAlertHandler(send)], checks: [leavesAlertFlow], made: send };
  },
});
