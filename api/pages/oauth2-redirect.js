"use strict";
{
	const query = new URLSearchParams(location.search);
	const pending = (() => {
		try {
			return opener.swaggerUIRedirectOauth2; // Swagger UI leaves it in the window that opened this one
		} catch {
			return undefined; // nobody opened this window, or another site did
		}
	})();
	if (pending?.state && query.get("state") === pending.state) {
		delete pending.state; // a state is good for one response
		if (query.get("code")) {
			pending.auth.code = query.get("code");
			pending.callback({auth: pending.auth, redirectUrl: pending.redirectUrl});
		} else {
			pending.errCb({authId: pending.auth.name, source: "auth", level: "error",
				message: [query.get("error"), query.get("error_description")].filter(Boolean).join(": ") || "The identity provider returned no code."});
		}
		close();
	}
}
